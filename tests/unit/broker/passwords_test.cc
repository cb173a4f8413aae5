#include "broker/passwords.h"

#include <gtest/gtest.h>

#include "tarrymq/broker/management.h"

namespace tarry {
namespace {

constexpr const char* kSha256 = "rabbit_password_hashing_sha256";

TEST(Passwords, AHashMadeHereMatchesItsPasswordOnly) {
  std::string hash = hash_password("s3cret");
  EXPECT_TRUE(password_matches(hash, kSha256, "s3cret"));
  EXPECT_FALSE(password_matches(hash, kSha256, "s3cret "));
  EXPECT_FALSE(password_matches(hash, kSha256, ""));
  EXPECT_NE(hash, hash_password("s3cret"));
}

TEST(Passwords, AHashFromRabbitMqsDocumentationMatches) {
  // Salt 908D C60A, password "test12".
  EXPECT_TRUE(
      password_matches("kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", kSha256, "test12"));
}

TEST(Passwords, NothingMatchesWhatIsNoHash) {
  for (const char* hash :
       {"", "x", "====", "AAAA", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2PO"}) {
    EXPECT_FALSE(password_matches(hash, kSha256, "test12")) << hash;
  }
  EXPECT_FALSE(password_matches(hash_password("a"), "rabbit_password_hashing_md5", "a"));
  EXPECT_TRUE(password_hash_valid("", kSha256));
  EXPECT_FALSE(password_hash_valid("AAAA", kSha256));
}

TEST(Passwords, RandomNamesDiffer) {
  EXPECT_EQ(random_name(22).size(), 22u);
  EXPECT_NE(random_name(22), random_name(22));
}

}  // namespace
}  // namespace tarry
