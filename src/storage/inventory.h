#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tarrymq/storage/file_system.h"

namespace tarry {

/// The files of all logs and their sizes at a clean stop (FORMAT.md "inventory"). With it the next
/// start notices what no checksum shows: a file that vanished, or one that was cut at the end of a
/// record. Not changed after read(): any thread.
class Inventory {
 public:
  using Sizes = std::map<std::string, uint64_t>;  // by file name, bytes

  /// What the last stop left, if that was a clean one; empty if not.
  static Inventory read(FileSystem& files, const std::string& data_dir);
  /// It holds for one start: durably away before anything changes. Fine if there is none.
  [[nodiscard]] static FileError remove(FileSystem& files, const std::string& data_dir);
  /// Writes it anew, when nothing else writes to the directory any more.
  /// `definitions`: their fingerprint, one word.
  [[nodiscard]] static FileError write(FileSystem& files, const std::string& data_dir,
                                       const std::string& definitions);

  /// The files in `directory` (a lane's, below data_dir) at the last stop. Null: nothing is known
  /// about it.
  const Sizes* of(const std::string& directory) const;
  /// The fingerprint of the definitions at the last stop; "" if it is not known.
  const std::string& definitions() const { return definitions_; }

 private:
  std::map<std::string, Sizes> sizes_;
  std::string definitions_;
};

}  // namespace tarry
