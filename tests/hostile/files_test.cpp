#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "apps/command/choice.h"
#include "apps/terminal/text.h"
#include "engine/base/text.h"
#include "engine/files/atomic_file.h"
#include "engine/files/mapped_file.h"
#include "tests/temporary_folder.h"

using namespace pursuit;

TEST_CASE("printable: what a terminal would obey is shown instead") {
  CHECK(printable("a λ²注意 b") == "a λ²注意 b");
  CHECK(printable("one\ntwo\tthree") == "one\\ntwo\\tthree");
  CHECK(printable("one\ntwo\tthree\r", true) == "one\ntwo\tthree\\u000d");
  CHECK(printable("\x1b[31mred\x7f\u009b\u202e\u2028") == "\\u001b[31mred\\u007f\\u009b\\u202e\\u2028");
  CHECK(printable("Stra\xdf"
                  "e") == "Stra\\xdfe");
  CHECK(printable(std::string_view("\0", 1)) == "\\u0000");
}

TEST_CASE("unfinished bytes: the beginning of a character at the end of a text") {
  const std::string smile = "\xF0\x9F\x98\x80";
  CHECK(apps::unfinished_bytes("") == 0);
  CHECK(apps::unfinished_bytes("a" + smile) == 0);
  for (size_t n = 1; n < 4; ++n) CHECK(apps::unfinished_bytes("ab" + smile.substr(0, n)) == n);
  CHECK(apps::unfinished_bytes("\x80\x80\x80\x80") == 0);
}

TEST_CASE("did you mean: the nearest name, or none") {
  const std::vector<std::string> names = {"train", "eval", "predict", "compare"};
  CHECK(apps::did_you_mean("trian", names) == "; did you mean train?");
  CHECK(apps::did_you_mean("evla", names, "--") == "; did you mean --eval?");
  CHECK(apps::did_you_mean("something", names).empty());
  CHECK(apps::did_you_mean(std::string(1 << 20, 'x'), names).empty());
}

TEST_CASE("mapped file: one that becomes shorter ends the process with a line") {
  const TemporaryFolder folder;
  const std::string path = folder.file("shrinks");
  std::ofstream(path) << std::string(1 << 16, 'x');
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    { const MappedFile gone(path); }  // its entry is used again
    const MappedFile other(path), file(path);
    if (truncate(path.c_str(), 4096) != 0) _exit(2);
    int sum = 0;
    for (const char c : file.bytes()) sum += c;
    _exit(sum == 0 ? 3 : 4);
  }
  close(ends[1]);
  std::string said(4096, '\0');
  said.resize(size_t(std::max<ssize_t>(0, read(ends[0], said.data(), said.size()))));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK(said == "error: [file] '" + path + "' became shorter, or its disk failed, while it was in use\n");
}

TEST_CASE("atomic file: two writers of one name do not meet, and what the killed leave is removed") {
  const TemporaryFolder folder;
  const std::string path = folder.file("file");
  {
    AtomicFile first(path), second(path);
    CHECK(folder.entries() == 2);
    remove_leftovers(folder.path.string());  // both live
    CHECK(folder.entries() == 2);
    first.write("first", 5);
    second.write("second", 6);
    first.commit();
    second.commit();
  }
  CHECK(InputFile(path).read_all() == "second");
  CHECK(folder.entries() == 1);

  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    AtomicFile file(path);
    file.write("x", 1);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  CHECK(folder.entries() == 2);
  const std::string like = folder.file("file.tmp-0123456789abcdef");
  std::filesystem::create_directory(like);
  std::filesystem::create_symlink(path, folder.file("link.tmp-0123456789abcdef"));
  std::ofstream(folder.file("file.tmp-0123456789abcde")) << "short";
  remove_leftovers(folder.path.string());
  CHECK(folder.entries() == 4);
  CHECK(InputFile(path).read_all() == "second");
  remove_leftovers(folder.file("nowhere"));
}
