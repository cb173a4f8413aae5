#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace tarry {

/// A call to be made later, once, on some shard. Move-only; what it captures lives inside it up to
/// 104 bytes, else on the heap. Used per batch, never per message.
class Task {
 public:
  Task() = default;
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Task>)
      Task(F&& f) {  // NOLINT(google-explicit-constructor): a lambda is a task
    using Fn = std::remove_cvref_t<F>;
    if constexpr (sizeof(Fn) <= kInline && alignof(Fn) <= alignof(std::max_align_t) &&
                  std::is_nothrow_move_constructible_v<Fn>) {
      new (storage_) Fn(std::forward<F>(f));
      ops_ = &kInlineOps<Fn>;
    } else {
      *reinterpret_cast<Fn**>(storage_) = new Fn(std::forward<F>(f));
      ops_ = &kHeapOps<Fn>;
    }
  }
  Task(Task&& other) noexcept { take(other); }
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() { reset(); }

  void operator()() { ops_->call(storage_); }
  explicit operator bool() const { return ops_ != nullptr; }

 private:
  static constexpr size_t kInline = 104;
  struct Ops {
    void (*call)(void*);
    void (*move)(void* to, void* from) noexcept;
    void (*destroy)(void*) noexcept;
  };
  template <class Fn>
  static constexpr Ops kInlineOps{[](void* p) { (*static_cast<Fn*>(p))(); },
                                  [](void* to, void* from) noexcept {
                                    new (to) Fn(std::move(*static_cast<Fn*>(from)));
                                    static_cast<Fn*>(from)->~Fn();
                                  },
                                  [](void* p) noexcept { static_cast<Fn*>(p)->~Fn(); }};
  template <class Fn>
  static constexpr Ops kHeapOps{
      [](void* p) { (**static_cast<Fn**>(p))(); },
      [](void* to, void* from) noexcept { *static_cast<Fn**>(to) = *static_cast<Fn**>(from); },
      [](void* p) noexcept { delete *static_cast<Fn**>(p); }};

  void take(Task& other) noexcept {
    ops_ = other.ops_;
    if (ops_) ops_->move(storage_, other.storage_);
    other.ops_ = nullptr;
  }
  void reset() noexcept {
    if (ops_) ops_->destroy(storage_);
    ops_ = nullptr;
  }

  alignas(std::max_align_t) std::byte storage_[kInline];
  const Ops* ops_ = nullptr;
};

}  // namespace tarry
