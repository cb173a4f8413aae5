#pragma once

#include <array>
#include <cstdint>

namespace tarry {

/// Where some records of a segment start that were found by their ordinals, so that the next ones
/// are near. Retries of several attempts, and dead letters, are each looked up in ascending order
/// but in turns: each has a place of its own, which goes ahead with it.
class LookUps {
 public:
  struct Place {
    uint32_t ordinal = 0, offset = 0;  // offset 0: none
  };

  /// The nearest known place at or before a record.
  Place before(uint32_t ordinal) const {
    Place nearest;
    for (const Place& place : places_) {
      if (place.offset != 0 && place.ordinal <= ordinal && place.ordinal >= nearest.ordinal)
        nearest = place;
    }
    return nearest;
  }

  /// Keeps `found`. It takes the place of `from`, which before() said for it, if that is near; else
  /// that of the one which was begun first.
  void keep(Place from, Place found) {
    if (from.offset != 0 && found.ordinal - from.ordinal <= kNear) {
      for (Place& place : places_) {
        if (place.ordinal == from.ordinal && place.offset == from.offset) {
          place = found;
          return;
        }
      }
    }
    places_[next_] = found;
    next_ = (next_ + 1) % places_.size();
  }

  void clear() { *this = {}; }

 private:
  static constexpr uint32_t kNear = 1024;  // records

  std::array<Place, 8> places_;
  uint32_t next_ = 0;
};

}  // namespace tarry
