#pragma once

#include <boost/container/deque.hpp>
#include <cstddef>
#include <memory>
#include <utility>

namespace tarry {

/// A list that is appended to at the back and taken from at the front. One word until something is
/// put in: a queue has many such lists, most queues use none of them, and there may be a hundred
/// thousand queues. What it has taken by then it keeps.
template <class T>
class Fifo {
 public:
  using List = boost::container::deque<T>;

  bool empty() const { return !list_ || list_->empty(); }
  size_t size() const { return list_ ? list_->size() : 0; }
  T& front() { return list_->front(); }  // these two: not when it is empty
  void pop_front() { list_->pop_front(); }
  void push_back(T value) { made().push_back(std::move(value)); }
  template <class... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    return made().emplace_back(std::forward<Arguments>(arguments)...);
  }
  void clear() {
    if (list_) list_->clear();
  }

  auto begin() { return list_ ? list_->begin() : typename List::iterator(); }
  auto end() { return list_ ? list_->end() : typename List::iterator(); }

 private:
  List& made() {
    if (!list_) list_ = std::make_unique<List>();
    return *list_;
  }
  std::unique_ptr<List> list_;
};

}  // namespace tarry
