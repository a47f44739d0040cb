#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pursuit::distributed {

struct Job;

// A shorter secret could be guessed from what an eavesdropper on the network sees.
inline constexpr size_t least_secret = 16;

// The key shared by the ranks of one job and nobody else.
using Key = std::array<unsigned char, 32>;

// Derives the key of one job from a secret: two jobs with the same secret do not accept each other's ranks.
Key key_of(const Job& job, const std::string& secret);

std::string random_bytes(size_t count);
// HMAC-SHA-512-256 of a text, 32 bytes: proves knowledge of the key without revealing it.
std::string keyed_hash(const Key& key, std::string_view text);
// Constant-time comparison.
bool equal(std::string_view a, std::string_view b);
// The first 64 bits of BLAKE2b; not keyed.
uint64_t hash(std::string_view text);

// The secret of a job whose ranks are all on one machine without PURSUIT_JOB_SECRET: a file readable by this
// user only (mode 0600 in a folder of mode 0700), named after the job. Rank 0 writes it and the others read
// it. A file left by a killed job is replaced: a rank that read it fails to authenticate and reads again.
class SecretFile {
 public:
  // Throws Error if the folder is not private to this user.
  explicit SecretFile(const Job& job);
  ~SecretFile();  // removes the file if this process wrote it
  std::string write();
  std::optional<std::string> read() const;

 private:
  std::string path_;
  bool written_ = false;
};

}  // namespace pursuit::distributed
