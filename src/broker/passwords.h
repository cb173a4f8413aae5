#pragma once

#include <string>
#include <string_view>

namespace tarry {

std::string base64_encode(std::string_view bytes);
/// False when it is no base64.
bool base64_decode(std::string_view text, std::string& out);

/// `hash`: base64(salt4 + sha256(salt4 + password)), or with sha512, as RabbitMQ stores them. False
/// for anything else. Takes the same time wherever the two differ.
bool password_matches(std::string_view hash, std::string_view algorithm, std::string_view password);
/// Takes a tenth of a second or more, on purpose: not on a shard. See slow_hashes.h.
bool is_slow_algorithm(std::string_view algorithm);
bool slow_password_matches(const std::string& hash, const std::string& password);
inline constexpr const char* kKnownAlgorithms =
    "rabbit_password_hashing_sha256, rabbit_password_hashing_sha512 and (imported) bcrypt";
/// What is stored must be something that can match: base64 of the right length for the algorithm,
/// or "".
bool password_hash_valid(std::string_view hash, std::string_view algorithm);

/// `count` random characters of A-Z a-z 0-9 - _.
std::string random_name(size_t count);

}  // namespace tarry
