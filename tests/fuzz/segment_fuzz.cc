#include <algorithm>
#include <string>
#include <vector>

#include "fuzz/fuzz_support.h"
#include "storage/ack_events.h"
#include "storage/inspect.h"
#include "storage/record_codec.h"
#include "storage/store_impl.h"
#include "support/faulty_file_system.h"
#include "tarrymq/runtime/clock.h"
#include "tarrymq/runtime/log.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/message_log.h"
#include "tarrymq/storage/store_shard.h"

namespace {

using namespace tarry;

constexpr uint64_t kIncarnation = 0x1122334455667788;
constexpr uint32_t kSegmentNumber = 0x2a;

/// A file's bytes from the input, with what a fuzzer does not guess put right: the header, and, if
/// `repair`, the checksum of each record or event that the lengths in front of them give.
std::vector<std::byte> file_bytes(ByteSpan body, bool ack_log, bool repair) {
  std::vector<std::byte> out(kFileHeaderBytes);
  FileHeader header;
  header.ack_log = ack_log;
  header.number = kSegmentNumber;
  header.incarnation = kIncarnation;
  header.queue_id = 7;
  encode_file_header(out.data(), header);
  out.insert(out.end(), body.begin(), body.end());
  if (!repair) return out;
  const uint32_t seed = checksum_seed(kIncarnation), least = ack_log ? kEventHeadBytes : kHeadBytes;
  for (size_t at = kFileHeaderBytes; at + least <= out.size();) {
    const uint32_t length = load_le<uint32_t>(out.data() + at + 4);
    if (length < least || length > out.size() - at) break;
    store_le<uint32_t>(out.data() + at, checksum(out.data() + at + 4, length - 4, seed));
    at += length;
  }
  if (!ack_log && out.size() >= kFileHeaderBytes + kTrailerBytes) {
    std::byte* trailer = out.data() + out.size() - kTrailerBytes;
    if (as_text(ByteSpan(trailer, 8)) == "TMQFOOT\n") {
      store_le<uint64_t>(trailer + 48, kIncarnation);
      store_le<uint32_t>(trailer + 60, checksum(trailer, 60, seed));
    }
  }
  return out;
}

void put_file(FileSystem& files, const std::string& path, const std::vector<std::byte>& bytes) {
  auto file = files.open(path, FileSystem::Open::create);
  FUZZ_CHECK(file.has_value());
  const ByteSpan piece(bytes);
  FUZZ_CHECK(!(*file)->pwritev({&piece, 1}, 0));
  FUZZ_CHECK(!(*file)->sync_data());
}

struct Seen {
  uint64_t fresh = 0, parked = 0, dying = 0;
  std::vector<std::string> bodies;
};

/// Opens, reads all that is there, and closes as after kill -9.
Seen open_and_read(FaultyFileSystem& files) {
  ManualClock clock;
  StoreOptions options;
  options.data_dir = "/d";
  options.disk_free_min_bytes = 0;
  auto store = open_manual_store(options, files);
  FUZZ_CHECK(store.has_value());
  Shard shard(ShardId{1}, clock);
  StoreShard store_shard(**store, shard);
  MessageLog::Options log_options;
  log_options.directory = (*store)->queue_directory(QueueId{7}) + "/0";
  log_options.queue_id = 7;
  Seen seen;
  auto log = MessageLog::open(store_shard, log_options);
  if (!log) return seen;
  seen.fresh = (*log)->fresh_count();
  seen.parked = (*log)->recovered_parked().size();
  seen.dying = (*log)->recovered_dying().size();
  for (const RecoveredPark& parked : (*log)->recovered_parked())
    (void)(*log)->park_error(parked.position);
  for (int turn = 0; turn < 10'000 && (*log)->fresh_count() > 0; ++turn) {
    Fetched fetched;
    const Fetch got = (*log)->peek(fetched);
    if (got == Fetch::ok) {
      seen.bodies.emplace_back(as_text(fetched.record.body));
      (*log)->take();
    }
    shard.run_turn_for_test();
    (*store)->impl().barrier->run_round(true);
    (*store)->impl().store_thread.run_queued();
    shard.run_turn_for_test();
    if (got == Fetch::none) break;
  }
  return seen;
}

}  // namespace

/// Input: a byte of flags, two bytes that say how long the segment is, the segment behind its
/// header, the ack log behind its. Whatever is in them, the log opens or is put aside; and what the
/// first start made of it the second one finds.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = set_log_level("off");
  FUZZ_CHECK(quiet);
  if (size < 3) return 0;
  const ByteSpan in = fuzz::input(data, size);
  const bool repair = data[0] & 1, with_acks = data[0] & 2;
  const size_t segment_bytes = std::min<size_t>(size - 3, data[1] | data[2] << 8);
  FaultyFileSystem files;
  for (const char* path :
       {"/d", "/d/queues", "/d/queues/0000000000000007", "/d/queues/0000000000000007/0"}) {
    (void)files.make_directory(path);
  }
  const std::string base = "/d/queues/0000000000000007/0/0000002a";
  put_file(files, base + ".seg", file_bytes(in.subspan(3, segment_bytes), false, repair));
  if (with_acks)
    put_file(files, base + ".ack", file_bytes(in.subspan(3 + segment_bytes), true, repair));
  (void)inspect_log(files, "/d/queues/0000000000000007/0");
  const Seen first = open_and_read(files);
  files.reboot(FaultyFileSystem::Survives::everything, 1);
  const Seen second = open_and_read(files);
  // What turned out to be damaged when it was read is gone for good.
  FUZZ_CHECK(first.bodies.size() <= first.fresh && second.bodies.size() <= second.fresh);
  FUZZ_CHECK(second.fresh <= first.fresh);
  if (first.bodies.size() == first.fresh) FUZZ_CHECK(second.fresh == first.fresh);
  FUZZ_CHECK(first.parked == second.parked);
  FUZZ_CHECK(first.dying == second.dying);
  FUZZ_CHECK(first.bodies == second.bodies);
  return 0;
}
