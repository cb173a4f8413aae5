#pragma once

#include <boost/system/error_code.hpp>
#include <type_traits>

namespace tarry {

enum class StoreError {
  disk_full = 1,  // appends are refused until there is room; the caller refuses its publisher
                  // (nack) or waits
  locked,         // another process holds the data directory; stop with a clear line
  damaged,        // bytes on disk do not hold what they should; reported, skipped
  wrong_format,   // a file of another format version; refuse to start, naming file and version
  not_found,
};

const boost::system::error_category& store_category();
inline boost::system::error_code make_error_code(StoreError e) {
  return {static_cast<int>(e), store_category()};
}

}  // namespace tarry

namespace boost::system {
template <>
struct is_error_code_enum<tarry::StoreError> : std::true_type {};
}  // namespace boost::system
