#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "storage/record_codec.h"
#include "storage/segment_index.h"
#include "tarrymq/storage/file_system.h"
#include "tarrymq/storage/store.h"
#include "tarrymq/storage/store_error.h"

namespace tarry {
namespace {

TEST(StoreFormat, ASkipOfMoreRecordsThanItsBytesCanHoldIsDamage) {
  std::array<std::byte, kHeadBytes> bytes;
  encode_skip(bytes.data(), 5, 3, 3 * kHeadBytes, 1);
  EXPECT_TRUE(check_record(bytes, 1));
  encode_skip(bytes.data(), 5, 4, 4 * kHeadBytes - 1, 1);
  EXPECT_FALSE(check_record(bytes, 1));
}

TEST(StoreFormat, ATrailerOfMoreRecordsThanTheSegmentCanHoldIsDamaged) {
  constexpr uint32_t kCount = 5, kEnd = kCount * kHeadBytes;
  for (const uint32_t end : {kEnd, kEnd - 1}) {
    SegmentIndex index;
    index.add_skip(kCount, kEnd);
    const std::vector<std::byte> footer = index.footer(end, 7);
    const auto trailer = ByteSpan(footer).last(kTrailerBytes);
    EXPECT_EQ(decode_trailer(trailer, checksum_seed(7)).has_value(), end == kEnd);
  }
}

TEST(StoreFormat, DefinitionsOfAnotherFormatAreRefusedWithWordsAndLeftAlone) {
  std::string pattern = (std::filesystem::temp_directory_path() / "tarry-format-XXXXXX").string();
  const std::string directory = ::mkdtemp(pattern.data());
  StoreOptions options;
  options.data_dir = directory + "/data";
  ASSERT_TRUE(Store::open(options, posix_file_system()));  // and closed
  // As a later program would leave it; what its clean stop said of the definitions goes with the
  // test.
  std::filesystem::remove(options.data_dir + "/inventory");
  const auto with_database = [&](auto act) {
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open({}, options.data_dir + "/definitions-and-index", &opened).ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    act(*db);
  };
  with_database([](rocksdb::DB& db) { ASSERT_TRUE(db.Put({}, "m/format", "2").ok()); });
  std::string why;
  const auto refused = Store::open(options, posix_file_system(), &why);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), make_error_code(StoreError::wrong_format));
  EXPECT_NE(why.find("another version of TarryMQ"), std::string::npos) << why;
  with_database([](rocksdb::DB& db) {
    std::string format;
    ASSERT_TRUE(db.Get({}, "m/format", &format).ok());
    EXPECT_EQ(format, "2");
    ASSERT_TRUE(db.Put({}, "m/format", "1").ok());
  });
  EXPECT_TRUE(Store::open(options, posix_file_system()));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tarry
