#include <doctest/doctest.h>

#include "engine/base/error.h"
#include "engine/distributed/job.h"
#include "engine/distributed/protocol.h"
#include "engine/distributed/secret.h"

using namespace pursuit;
using namespace pursuit::distributed;

TEST_CASE("distributed protocol: messages come out as they went in, in whatever pieces they come") {
  const std::vector<Message> sent = {{Kind::set, {"key", std::string("\0\xff", 2)}},
                                     {Kind::heartbeat, {}},
                                     {Kind::join, {"1", "2", ""}},
                                     {Kind::ended, {std::string(300, 'w')}}};
  std::string bytes;
  for (const Message& message : sent) bytes += encode(message);
  for (const size_t piece : {size_t(1), size_t(3), size_t(7), bytes.size()}) {
    MessageReader reader(rank_limit);
    std::vector<Message> got;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      reader.add(std::string_view(bytes).substr(at, piece));
      while (const auto message = reader.next()) got.push_back(*message);
    }
    REQUIRE(got.size() == sent.size());
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i].kind == sent[i].kind);
      CHECK(got[i].fields == sent[i].fields);
    }
  }
}

TEST_CASE("distributed protocol: what is no message is refused, before its bytes are waited for") {
  const auto refuses = [](std::string bytes, size_t limit = rank_limit) {
    MessageReader reader(limit);
    reader.add(bytes);
    CHECK_THROWS_AS(reader.next(), Error);
  };
  refuses(std::string(4, '\0'));
  refuses(std::string(4, '\xff'));
  refuses(encode({Kind::set, {"key", std::string(600, 'v')}}).substr(0, 4), stranger_limit);
  refuses(encode({Kind(14), {}}));
  refuses(encode({Kind::set, {"key"}}));
  refuses(encode({Kind::heartbeat, {"more"}}));
  refuses(std::string("\x06\0\0\0\x0b\x05\0\0\0x", 10));  // a text of five bytes, of which one is there
  refuses(std::string("\x03\0\0\0\x0b\x05\0", 7));        // half a length
  CHECK_THROWS_AS(encode({Kind::ended, {std::string(rank_limit, 'x')}}), Error);
  CHECK(unpack(pack({"", "a", std::string(70'000, 'b')})) ==
        std::vector<std::string>{"", "a", std::string(70'000, 'b')});
}

TEST_CASE("distributed protocol: a proof is of one key, one job and one text") {
  const Job job{.launcher = "test", .identity = "1"}, other{.launcher = "test", .identity = "2"};
  const std::string proof = keyed_hash(key_of(job, "secret"), "text");
  CHECK(proof.size() == 32);
  CHECK(equal(proof, keyed_hash(key_of(job, "secret"), "text")));
  CHECK_FALSE(equal(proof, keyed_hash(key_of(job, "secret"), "Text")));
  CHECK_FALSE(equal(proof, keyed_hash(key_of(job, "Secret"), "text")));
  CHECK_FALSE(equal(proof, keyed_hash(key_of(other, "secret"), "text")));
  CHECK_FALSE(equal(proof, proof.substr(1)));
  CHECK(random_bytes(32) != random_bytes(32));
}
