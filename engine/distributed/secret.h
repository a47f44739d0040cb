#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pursuit::distributed {

struct Job;

// Fewer characters of a secret could be found by trying from what a listener on the network sees.
inline constexpr size_t least_secret = 16;

// What the ranks of one job know and nobody else does.
using Key = std::array<unsigned char, 32>;

// The key of a secret, for one job: two jobs with the same secret do not take each other's ranks.
Key key_of(const Job& job, const std::string& secret);

std::string random_bytes(size_t count);
// HMAC-SHA-512-256 of a text, 32 bytes: who gives it knows the key, and does not tell it.
std::string keyed_hash(const Key& key, std::string_view text);
// In a time that does not depend on where they differ.
bool equal(std::string_view a, std::string_view b);
// BLAKE2b's first 64 bits; nothing secret.
uint64_t hash(std::string_view text);

// The secret of a job whose ranks are all on one machine and have no PURSUIT_JOB_SECRET: a file of this user
// alone (mode 0600 in a folder of mode 0700), named by the job. Rank 0 writes it and the others read it. One
// that a killed job left behind is replaced: whoever read it before proves nothing with it, and reads again.
class SecretFile {
 public:
  // Throws Error if the folder is not this user's alone.
  explicit SecretFile(const Job& job);
  ~SecretFile();  // removes what it wrote
  std::string write();
  std::optional<std::string> read() const;

 private:
  std::string path_;
  bool written_ = false;
};

}  // namespace pursuit::distributed
