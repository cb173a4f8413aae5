#include "tarrymq/storage/store_error.h"

#include <string>

namespace tarry {
namespace {

// The library's base class has no virtual destructor; categories are never destroyed through it.
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"

class Category final : public boost::system::error_category {  // NOLINT(*-virtual-class-destructor)
 public:
  const char* name() const noexcept override { return "tarrymq.storage"; }
  std::string message(int value) const override {
    switch (static_cast<StoreError>(value)) {
      case StoreError::disk_full:
        return "the disk is full or failing";
      case StoreError::locked:
        return "another process holds the data directory";
      case StoreError::damaged:
        return "the bytes on disk are damaged";
      case StoreError::wrong_format:
        return "a file of another format version";
      case StoreError::not_found:
        return "not found";
    }
    return "unknown storage error";
  }
};

}  // namespace

const boost::system::error_category& store_category() {
  static const Category category;
  return category;
}

}  // namespace tarry
