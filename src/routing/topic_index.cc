#include <memory>
#include <string>
#include <vector>

#include "routing/binding_index.h"
#include "tarrymq/runtime/invariant.h"

namespace tarry {

namespace {

/// A key's words: what stands between its dots, empty words included. The empty key has no word
/// (RabbitMQ).
class Words {
 public:
  explicit Words(std::string_view key) : rest_(key), done_(key.empty()) {}
  bool next(std::string_view& word) {
    if (done_) return false;
    const size_t dot = rest_.find('.');
    done_ = dot == std::string_view::npos;
    word = rest_.substr(0, dot);
    if (!done_) rest_.remove_prefix(dot + 1);
    return true;
  }

 private:
  std::string_view rest_;
  bool done_;
};

/// Patterns as a trie over words: one child by word, one for `*`, one for `#`. A node is there as
/// long as a pattern ends in it or below it.
///
/// Matching walks the key word by word with the set of nodes that can be reached. A `#` node, once
/// reached, stays in the set (it may take any further word), and each node has one parent, so a
/// node can come into the set twice only by its own `#`: a mark per `#` node keeps that out. So a
/// match costs at most words x nodes reached, whatever the patterns
/// ("#.a.#.a.#.a" against "a.a.a.a" has no blow-up).
struct Node {
  Node* parent = nullptr;
  std::string_view word;  // in the parent's map; not set for `*` and `#`
  std::unique_ptr<TextMap<std::unique_ptr<Node>>> by_word;
  std::unique_ptr<Node> star, hash;
  DestinationSet ends_here;
  uint32_t mark = 0;  // of a `#` node: its number, from 1

  bool unused() const { return ends_here.empty() && !by_word && !star && !hash; }
};

/// What a match needs besides the trie; one a thread, so that matching neither allocates nor writes
/// into shared nodes.
struct Scratch {
  std::vector<const Node*> now, then, hashes;
  std::vector<uint64_t> marked_in;  // by mark: the last match that reached this `#` node
  uint64_t match = 0;
};

class TopicIndex : public BindingIndex {
 public:
  void add(const Destination* to, std::string_view key, const FieldTable&) override {
    Node* at = &root_;
    Words words(key);
    std::string_view word;
    while (words.next(word)) at = child_to_be(*at, word);
    at->ends_here.add(to);
  }

  void remove(const Destination* to, std::string_view key, const FieldTable&) override {
    Node* at = &root_;
    Words words(key);
    std::string_view word;
    while (words.next(word)) {
      at = child(*at, word);
      TARRY_INVARIANT(at != nullptr);
    }
    at->ends_here.remove(to);
    while (at != &root_ && at->unused()) {
      Node* parent = at->parent;
      drop(*parent, at);
      at = parent;
    }
  }

  void match(std::string_view routing_key, ByteSpan, RouteMatches& out) const override {
    thread_local Scratch scratch;
    Scratch& s = scratch;
    ++s.match;
    if (s.marked_in.size() <= marks_) s.marked_in.resize(marks_ + 1, 0);
    s.now.clear();
    s.hashes.clear();
    s.now.push_back(&root_);
    reach_hash(s, root_);
    Words words(routing_key);
    std::string_view word;
    while (words.next(word)) step(s, word);
    for (const Node* node : s.now) node->ends_here.append_to(out);
    for (const Node* node : s.hashes) node->ends_here.append_to(out);
  }

 private:
  static Node* child(Node& at, std::string_view word) {
    if (word == "*") return at.star.get();
    if (word == "#") return at.hash.get();
    if (!at.by_word) return nullptr;
    const auto found = at.by_word->find(word);
    return found == at.by_word->end() ? nullptr : found->second.get();
  }

  Node* child_to_be(Node& at, std::string_view word) {
    if (Node* there = child(at, word)) return there;
    auto made = std::make_unique<Node>();
    Node* node = made.get();
    node->parent = &at;
    if (word == "*") {
      at.star = std::move(made);
    } else if (word == "#") {
      node->mark = take_mark();
      at.hash = std::move(made);
    } else {
      if (!at.by_word) at.by_word = std::make_unique<TextMap<std::unique_ptr<Node>>>();
      node->word = at.by_word->emplace(word, std::move(made)).first->first;
    }
    return node;
  }

  void drop(Node& parent, Node* node) {
    if (node == parent.star.get()) {
      parent.star.reset();
    } else if (node == parent.hash.get()) {
      free_marks_.push_back(node->mark);
      parent.hash.reset();
    } else {
      parent.by_word->erase(parent.by_word->find(node->word));
      if (parent.by_word->empty()) parent.by_word.reset();
    }
  }

  uint32_t take_mark() {
    if (free_marks_.empty()) return ++marks_;
    const uint32_t mark = free_marks_.back();
    free_marks_.pop_back();
    return mark;
  }

  /// `#` takes no word at all, so to reach a node is to reach its `#`, and that one's `#` ("#.#").
  static void reach_hash(Scratch& s, const Node& from) {
    for (const Node* node = from.hash.get(); node != nullptr; node = node->hash.get()) {
      if (s.marked_in[node->mark] == s.match) return;
      s.marked_in[node->mark] = s.match;
      s.hashes.push_back(node);
    }
  }

  static void step(Scratch& s, std::string_view word) {
    s.then.clear();
    const size_t hashes_before =
        s.hashes.size();  // those reached in this step have not seen the word
    auto follow = [&](const Node& from) {
      auto reach = [&](const Node* node) {
        s.then.push_back(node);
        reach_hash(s, *node);
      };
      if (from.by_word) {
        const auto found = from.by_word->find(word);
        if (found != from.by_word->end()) reach(found->second.get());
      }
      if (from.star) reach(from.star.get());
    };
    for (const Node* node : s.now) follow(*node);
    for (size_t i = 0; i < hashes_before; ++i) follow(*s.hashes[i]);
    s.now.swap(s.then);
  }

  Node root_;
  uint32_t marks_ = 0;  // the highest given
  std::vector<uint32_t> free_marks_;
};

}  // namespace

std::unique_ptr<BindingIndex> make_topic_index() { return std::make_unique<TopicIndex>(); }

}  // namespace tarry
