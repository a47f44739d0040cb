#include "engine/distributed/secret.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/base/error.h"
#include "engine/distributed/job.h"

namespace pursuit::distributed {

static_assert(std::tuple_size_v<Key> == crypto_auth_KEYBYTES && crypto_auth_BYTES == 32);

namespace {

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

void start_library() { check(sodium_init() >= 0, "ranks", "libsodium does not start"); }

}  // namespace

Key key_of(const Job& job, const std::string& secret) {
  start_library();
  const std::string named = job.launcher + " " + job.identity;
  Key of_secret, key;
  crypto_generichash(of_secret.data(), of_secret.size(), bytes_of(secret), secret.size(), nullptr, 0);
  crypto_generichash(key.data(), key.size(), bytes_of(named), named.size(), of_secret.data(),
                     of_secret.size());
  return key;
}

std::string random_bytes(size_t count) {
  start_library();
  std::string bytes(count, '\0');
  randombytes_buf(bytes.data(), count);
  return bytes;
}

std::string keyed_hash(const Key& key, std::string_view text) {
  std::string result(crypto_auth_BYTES, '\0');
  crypto_auth(bytes_of(result), bytes_of(text), text.size(), key.data());
  return result;
}

bool equal(std::string_view a, std::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

uint64_t hash(std::string_view text) {
  unsigned char result[crypto_generichash_BYTES_MIN];
  crypto_generichash(result, sizeof result, bytes_of(text), text.size(), nullptr, 0);
  uint64_t first = 0;
  std::memcpy(&first, result, sizeof first);
  return first;
}

SecretFile::SecretFile(const Job& job) {
  const std::string folder = "/tmp/pursuit-" + std::to_string(geteuid());
  mkdir(folder.c_str(), 0700);
  struct stat status = {};
  if (lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
      (status.st_mode & 077) != 0)
    fail("ranks", "'" + folder +
                      "', where the secret of the ranks is kept, is no folder that only this user can "
                      "enter; remove it, or set PURSUIT_JOB_SECRET to the same text for all ranks");
  path_ = folder + "/job-" + std::to_string(hash(job.launcher + " " + job.identity));
}

SecretFile::~SecretFile() {
  if (written_) unlink(path_.c_str());
}

std::string SecretFile::write() {
  const std::string secret = random_bytes(sizeof(Key));
  unlink(path_.c_str());
  const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  written_ = file >= 0 && ::write(file, secret.data(), secret.size()) == ssize_t(secret.size());
  const int reason = errno;
  if (file >= 0) close(file);
  if (!written_) fail("ranks", "'" + path_ + "' cannot be written: " + std::strerror(reason));
  return secret;
}

std::optional<std::string> SecretFile::read() const {
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return {};
  std::string secret(sizeof(Key), '\0');
  const ssize_t count = ::read(file, secret.data(), secret.size());
  close(file);
  if (count != ssize_t(secret.size())) return {};
  return secret;
}

}  // namespace pursuit::distributed
