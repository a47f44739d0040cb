#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

#include "engine/base/error.h"
#include "engine/distributed/control.h"

using namespace pursuit;
using namespace pursuit::distributed;
using std::chrono::milliseconds;

namespace {

int current_job = 0;  // its number

// Ranks are threads of this process here; for the channel there is no difference.
Job job_of(int rank, int size) {
  Job job{.rank = rank, .size = size, .local_rank = rank, .local_size = size, .launcher = "test"};
  job.identity = std::to_string(getpid()) + " " + std::to_string(current_job);
  job.address = "127.0.0.1";
  job.secret = "the secret of these tests";
  return job;
}

// The outcome of one rank: why its job ended, or what it threw.
struct Outcome {
  std::string error, ended;
  std::atomic<int> stops = 0;
};

ControlOptions options_of(Outcome& outcome, milliseconds join = milliseconds(20'000)) {
  ControlOptions options;
  options.limits.join = join;
  options.limits.answer = milliseconds(20'000);
  options.on_stop = [&] { ++outcome.stops; };
  options.on_end = [&](const std::string& why) { outcome.ended = why; };
  return options;
}

using Jobs = std::vector<Job>;
// All ranks of a new job.
Jobs jobs(int size) {
  ++current_job;
  Jobs all;
  for (int rank = 0; rank < size; ++rank) all.push_back(job_of(rank, size));
  return all;
}

using Body = std::function<void(ControlChannel&)>;

// Runs one thread for each job, and the body in those that meet.
std::vector<Outcome> run(const Jobs& all, const Body& body, milliseconds join = milliseconds(20'000)) {
  std::vector<Outcome> outcomes(all.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < all.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        ControlChannel channel(all[i], options_of(outcomes[i], join));
        body(channel);
      } catch (const Error& error) {
        outcomes[i].error = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

void check_quiet(const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.error == "");
    CHECK(outcome.ended == "");
  }
}

void check_contains(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}

// A stranger's connection to rank 0's first free port, once rank 0 listens.
Socket stranger(const Job& job) {
  const Address address = addresses_of(job.address).front();
  for (int i = 0; i < 200; ++i) {
    if (std::optional<Socket> socket = connect_to(address, candidate_ports(job).front(), milliseconds(1000)))
      return std::move(*socket);
    std::this_thread::sleep_for(milliseconds(10));
  }
  fail("test", "rank 0 does not listen");
}

}  // namespace

TEST_CASE("distributed control: ranks meet, exchange values, wait for each other and leave") {
  for (const int size : {2, 3, 4}) {
    std::atomic<int> before = 0, wrong = 0;
    check_quiet(run(jobs(size), [&](ControlChannel& channel) {
      const std::string own = std::to_string(channel.rank());
      const std::string zeros("\0\0", 2);
      if (channel.rank() == 0) std::this_thread::sleep_for(milliseconds(50));  // the others ask first
      channel.set("value " + own, zeros + own);
      for (int rank = 0; rank < channel.size(); ++rank)
        wrong += channel.get("value " + std::to_string(rank)) != zeros + std::to_string(rank);
      wrong += channel.address() != "127.0.0.1";
      for (int round = 1; round <= 20; ++round) {
        ++before;
        channel.barrier();
        wrong += before < round * size;
        channel.barrier();
      }
      if (channel.rank() == 1) channel.set("long", std::string(500'000, 'x'));
      wrong += channel.get("long").size() != 500'000;
      channel.leave();
    }));
    CHECK(wrong == 0);
  }
}

TEST_CASE("distributed control: without a secret one is made, in a file of this user that goes again") {
  Jobs all = jobs(3);
  for (Job& job : all) job.secret.clear();
  // A secret that a killed job left behind must not be used.
  std::filesystem::create_directory("/tmp/pursuit-" + std::to_string(geteuid()));
  std::filesystem::permissions("/tmp/pursuit-" + std::to_string(geteuid()),
                               std::filesystem::perms::owner_all);
  const std::string folder = "/tmp/pursuit-" + std::to_string(geteuid());
  const std::string path = folder + "/job-" + std::to_string(hash(all[0].launcher + " " + all[0].identity));
  std::FILE* stale = std::fopen(path.c_str(), "w");
  std::fputs("12345678901234567890123456789012", stale);
  std::fclose(stale);
  std::vector<Outcome> outcomes(3);
  std::vector<std::thread> threads;
  std::atomic<int> met = 0;
  const auto rank = [&](size_t i) {
    try {
      ControlChannel channel(all[i], options_of(outcomes[i]));
      ++met;
      channel.leave();
    } catch (const Error& error) {
      outcomes[i].error = error.what();
    }
  };
  threads.emplace_back(rank, 1);
  threads.emplace_back(rank, 2);
  std::this_thread::sleep_for(milliseconds(300));
  threads.emplace_back(rank, 0);
  for (std::thread& thread : threads) thread.join();
  check_quiet(outcomes);
  CHECK(met == 3);
  struct stat status = {};
  CHECK(lstat(path.c_str(), &status) != 0);
  CHECK(lstat(folder.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
}

TEST_CASE(
    "distributed control: ranks that differ from rank 0 are refused on all ranks, with the difference") {
  const auto describe = [](const std::string& seed_of_1, const char* name) {
    return [=](ControlChannel& channel) {
      channel.agree({{"build", "abc"}, {"seed", "0"}});
      channel.agree({{"build", "abc"}, {name, channel.rank() == 1 ? seed_of_1 : "0"}});
      channel.leave();
    };
  };
  check_quiet(run(jobs(3), describe("0", "seed")));
  for (const Outcome& outcome : run(jobs(3), describe("1", "seed"))) {
    CHECK(outcome.error == "[ranks] rank 1 differs from rank 0: seed is '1', not '0'");
    CHECK(outcome.ended == "");
  }
  const auto outcomes = run(jobs(2), [](ControlChannel& channel) {
    channel.agree(channel.rank() == 0 ? Description{{"seed", "0"}}
                                      : Description{{"seed", "0"}, {"data", "1"}});
  });
  for (const Outcome& outcome : outcomes)
    CHECK(outcome.error == "[ranks] rank 1 differs from rank 0: it is another version of the program");
}

TEST_CASE("distributed control: a rank that never comes is named within the limit") {
  Jobs all = jobs(4);
  all.erase(all.begin() + 2);
  const auto begin = Clock::now();
  const auto outcomes = run(
      all, [](ControlChannel&) {}, milliseconds(1000));
  CHECK(Clock::now() - begin < milliseconds(6000));
  for (const Outcome& outcome : outcomes)
    check_contains(outcome.error, "rank 2 of 4 did not come within 1 s");
  // And rank 0.
  for (const Outcome& outcome : run(
           {job_of(1, 2)}, [](ControlChannel&) {}, milliseconds(1000)))
    check_contains(outcome.error, "rank 0 was not found at 127.0.0.1, port ");
}

TEST_CASE("distributed control: another secret, another number of ranks, a number that is taken") {
  Jobs all = jobs(2);
  all[1].secret = "another secret for a test";
  auto outcomes = run(
      all, [](ControlChannel&) {}, milliseconds(1000));
  check_contains(outcomes[0].error,
                 "rank 1 of 2 did not come within 1 s; a rank of another job or with another secret");
  check_contains(outcomes[1].error, "has another secret");

  all = jobs(2);
  all.push_back(job_of(2, 3));
  all.erase(all.begin() + 1);
  for (const Outcome& outcome : run(all, [](ControlChannel&) {}))
    CHECK(outcome.error == "[ranks] rank 2 was started as one of 3 ranks, and rank 0 as one of 2");

  // Two of rank 1 and a rank 2 that comes late: the job goes on with the first.
  all = jobs(3);
  all.push_back(job_of(1, 3));
  std::atomic<int> left = 0, refused = 0;
  std::vector<Outcome> of_all(4);
  std::vector<std::thread> threads;
  for (const size_t i : {0, 1, 3, 2}) {
    threads.emplace_back([&, i] {
      try {
        ControlChannel channel(all[i], options_of(of_all[i]));
        channel.leave();
        ++left;
      } catch (const Error& error) {
        of_all[i].error = error.what();
        ++refused;
      }
    });
    if (i == 3)
      while (refused == 0) std::this_thread::sleep_for(milliseconds(10));
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(left == 3);
  CHECK(of_all[1].error + of_all[3].error ==
        "[ranks] rank 1 is there already; each rank needs a number of its own");
}

TEST_CASE("distributed control: garbage and silent strangers on the port neither hang nor end a job") {
  const Jobs all = jobs(2);
  std::vector<Outcome> outcomes(2);
  std::atomic<bool> left = false;
  std::thread rank_0([&] {
    ControlChannel channel(all[0], options_of(outcomes[0]));
    channel.leave();
    left = true;
  });
  std::vector<Socket> strangers;
  for (int i = 0; i < 100; ++i) strangers.push_back(stranger(all[0]));
  const std::string hello = encode({Kind::hello, {protocol_name, std::string(32, '\0')}});
  const std::string join = encode({Kind::join, {"1", "2", std::string(32, '\0')}});
  const std::vector<std::string> garbage = {std::string("GET / HTTP/1.1\r\n\r\n"),
                                            std::string(100'000, '\xff'),
                                            std::string(8, '\0'),
                                            hello.substr(0, 20),
                                            hello + hello,
                                            hello + join,
                                            join,
                                            encode({Kind::failed, {"why"}}),
                                            encode({Kind::set, {"key", "value"}}),
                                            encode({Kind::hello, {"another protocol", "1"}})};
  for (const std::string& bytes : garbage) {
    strangers.push_back(stranger(all[0]));
    send_all(strangers.back(), bytes);
  }
  CHECK_FALSE(left);
  {
    ControlChannel channel(all[1], options_of(outcomes[1]));
    channel.leave();
  }
  rank_0.join();
  check_quiet(outcomes);
  CHECK(left);
}

TEST_CASE("distributed control: ranks that leave at their own pace miss nobody") {
  for (int round = 0; round < 40; ++round)
    check_quiet(run(jobs(2), [](ControlChannel& channel) { channel.leave(); }));
}

TEST_CASE("distributed control: a port in use, by a program that says nothing, is passed over") {
  const Jobs all = jobs(2);
  const std::vector<int> ports = candidate_ports(all[0]);
  const std::optional<Socket> taken = listen_at(addresses_of("127.0.0.1").front(), ports[0]);
  REQUIRE(taken);
  check_quiet(run(all, [](ControlChannel& channel) { channel.leave(); }));
  // The one port that was named.
  Job named = job_of(0, 2);
  named.port = ports[0];
  std::vector<Outcome> outcomes(1);
  CHECK_THROWS_WITH(ControlChannel(named, options_of(outcomes[0])),
                    doctest::Contains("rank 0 finds no free port at 127.0.0.1"));
}

TEST_CASE("distributed control: the launcher's open socket is rank 0's port") {
  Jobs all = jobs(2);
  std::optional<Socket> listener = listen_at(addresses_of("127.0.0.1").front(), 0);
  REQUIRE(listener);
  all[0].port = all[1].port = own_address(*listener).port();
  all[0].listener = dup(listener->descriptor());
  listener->close();
  check_quiet(run(all, [](ControlChannel& channel) { channel.leave(); }));

  Job other = job_of(0, 2);
  other.listener = dup(STDIN_FILENO);
  std::vector<Outcome> outcomes(1);
  CHECK_THROWS_WITH(ControlChannel(other, options_of(outcomes[0])), doctest::Contains("no listening socket"));
}

TEST_CASE("distributed control: who goes without a word is lost, and who fails says why") {
  for (const int lost : {0, 1, 2}) {
    auto outcomes = run(jobs(3), [&](ControlChannel& channel) {
      channel.barrier();
      if (channel.rank() != lost) channel.wait_for_end(milliseconds(10'000));
    });
    for (int rank = 0; rank < 3; ++rank) {
      CAPTURE(rank);
      CAPTURE(lost);
      if (rank == lost) continue;
      CHECK(outcomes[size_t(rank)].ended ==
            "rank " + std::to_string(lost) + " is lost (its connection closed)");
    }
    outcomes = run(jobs(3), [&](ControlChannel& channel) {
      channel.barrier();
      if (channel.rank() == lost)
        channel.abort("the disk is full");
      else
        channel.barrier();
    });
    for (int rank = 0; rank < 3; ++rank) {
      CAPTURE(rank);
      const std::string why = "rank " + std::to_string(lost) + " failed: the disk is full";
      CHECK(outcomes[size_t(rank)].ended == (rank == lost ? "" : why));
      CHECK(outcomes[size_t(rank)].error == (rank == lost ? "" : "[ranks] " + why));
    }
  }
}

TEST_CASE("distributed control: a request to stop reaches every rank") {
  const auto outcomes = run(jobs(3), [](ControlChannel& channel) {
    if (channel.rank() == 2) channel.request_stop();
    channel.barrier();
    std::this_thread::sleep_for(milliseconds(100));
    channel.leave();
  });
  check_quiet(outcomes);
  for (const Outcome& outcome : outcomes) CHECK(outcome.stops == 1);
}
