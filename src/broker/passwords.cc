#include "broker/passwords.h"

#include <crypt.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <memory>

#include "tarrymq/broker/management.h"
#include "tarrymq/runtime/invariant.h"

namespace tarry {
namespace {

constexpr size_t kSaltBytes = 4;

const EVP_MD* digest_of(std::string_view algorithm) {
  if (algorithm == "rabbit_password_hashing_sha256" || algorithm.empty()) return EVP_sha256();
  if (algorithm == "rabbit_password_hashing_sha512") return EVP_sha512();
  return nullptr;
}

std::string salted(std::string_view salt, std::string_view password, const EVP_MD* digest) {
  std::string input(salt);
  input += password;
  std::string out(salt);
  unsigned char sum[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  TARRY_INVARIANT(EVP_Digest(input.data(), input.size(), sum, &size, digest, nullptr) == 1);
  out.append(reinterpret_cast<const char*>(sum), size);
  return out;
}

/// $2b$ (or a, y), two digits of cost, 22 characters of salt and 31 of sum. A cost above 16 would
/// take minutes.
bool is_bcrypt(std::string_view hash) {
  if (hash.size() != 60 || hash.substr(0, 2) != "$2" || hash[3] != '$' || hash[6] != '$')
    return false;
  const char kind = hash[2];
  const int cost = (hash[4] - '0') * 10 + (hash[5] - '0');
  return (kind == 'a' || kind == 'b' || kind == 'y') && cost >= 4 && cost <= 16;
}

void random_bytes(void* out, size_t size) {
  TARRY_INVARIANT(RAND_bytes(static_cast<unsigned char*>(out), static_cast<int>(size)) == 1);
}

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');
  int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                             reinterpret_cast<const unsigned char*>(bytes.data()),
                             static_cast<int>(bytes.size()));
  out.resize(static_cast<size_t>(size));
  return out;
}

bool base64_decode(std::string_view text, std::string& out) {
  if (text.size() % 4 != 0) return false;
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  if (text.substr(0, text.size() - padding).find('=') != std::string_view::npos) return false;
  out.assign(text.size() / 4 * 3, '\0');
  int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                             reinterpret_cast<const unsigned char*>(text.data()),
                             static_cast<int>(text.size()));
  if (size < 0) return false;
  out.resize(static_cast<size_t>(size) - padding);
  return true;
}

bool password_matches(std::string_view hash, std::string_view algorithm,
                      std::string_view password) {
  const EVP_MD* digest = digest_of(algorithm);
  std::string stored;
  if (!digest || hash.empty() || !base64_decode(hash, stored)) return false;
  if (stored.size() != kSaltBytes + static_cast<size_t>(EVP_MD_size(digest))) return false;
  std::string given = salted(std::string_view(stored).substr(0, kSaltBytes), password, digest);
  return CRYPTO_memcmp(stored.data(), given.data(), stored.size()) == 0;
}

bool password_hash_valid(std::string_view hash, std::string_view algorithm) {
  if (is_slow_algorithm(algorithm)) return is_bcrypt(hash);
  const EVP_MD* digest = digest_of(algorithm);
  std::string stored;
  if (!digest) return false;
  if (hash.empty()) return true;
  return base64_decode(hash, stored) &&
         stored.size() == kSaltBytes + static_cast<size_t>(EVP_MD_size(digest));
}

std::string hash_password(std::string_view password, std::string_view algorithm) {
  const EVP_MD* digest = digest_of(algorithm);
  if (!digest) return "";
  char salt[kSaltBytes];
  random_bytes(salt, sizeof salt);
  return base64_encode(salted({salt, sizeof salt}, password, digest));
}

bool is_slow_algorithm(std::string_view algorithm) {
  return algorithm == "bcrypt" || algorithm == "Bcrypt";
}

bool slow_password_matches(const std::string& hash, const std::string& password) {
  auto scratch = std::make_unique<crypt_data>();
  const char* made = crypt_r(password.c_str(), hash.c_str(), scratch.get());
  return is_bcrypt(hash) && made != nullptr && hash == made;
}

std::string random_name(size_t count) {
  static constexpr char kAlphabet[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string out(count, '\0');
  random_bytes(out.data(), count);
  for (char& c : out) c = kAlphabet[static_cast<unsigned char>(c) & 63];
  return out;
}

}  // namespace tarry
