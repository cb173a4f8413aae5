#include <algorithm>

#include "broker/declare.h"
#include "broker/definition_codec.h"
#include "broker/desk.h"
#include "broker/foreign_arguments.h"
#include "broker/holding.h"
#include "broker/kept_actor.h"
#include "broker/passwords.h"
#include "broker/success.h"
#include "broker/vhost_face.h"
#include "broker/wording.h"
#include "tarrymq/runtime/invariant.h"
#include "tarrymq/runtime/shard.h"
#include "tarrymq/storage/store.h"

namespace tarry {
namespace {

constexpr size_t kGeneratedNameChars = 22;

PeerError reserved_queue_name(std::string_view name) {
  return PeerError::access_refused("queue name '" + std::string(name) +
                                   "' contains reserved prefix 'amq.*'");
}

/// What a name of the server's begins with: `x-name-prefix` (RabbitMQ), or else the usual.
Result<std::string, PeerError> name_prefix(const std::string& vhost, const FieldTable& arguments) {
  constexpr size_t kPrefixBytesMax = 64;
  const FieldValue* value = arguments.find("x-name-prefix");
  if (!value) return std::string("amq.gen-");
  const std::string* text = value->text();
  if (text && !text->empty() && text->size() <= kPrefixBytesMax && !is_reserved_name(*text))
    return *text;
  return PeerError::precondition_failed(
      "invalid arg 'x-name-prefix' for " + queue_named("", vhost) + ": expected 1 to " +
      std::to_string(kPrefixBytesMax) + " bytes that do not begin with 'amq.', got " +
      value_in_words(value));
}

}  // namespace

std::string without_line_ends(std::string name) {
  std::erase_if(name, [](char c) { return c == '\r' || c == '\n'; });
  return name;
}

Result<std::shared_ptr<QueueEntry>, PeerError> VhostFace::usable_queue(
    const Actor& actor, Right right, std::string_view queue) const {
  if (is_internal_queue_name(queue)) return internal_queue(queue, name());
  if (auto right_there = check(actor, right, "queue", queue); !right_there)
    return right_there.error();
  auto entry = vhost_->deleted ? nullptr : vhost_->find_queue(queue);
  if (!entry) return no_queue(queue, name());
  if (locked_for(*entry, actor)) return locked_queue(queue, name());
  return entry;
}

Result<std::shared_ptr<QueueHandle>, PeerError> VhostFace::open_queue(const Actor& actor,
                                                                      std::string_view queue) {
  std::shared_lock lock(core_.registry.mutex);
  auto entry = usable_queue(actor, Right::read, queue);
  if (!entry) return entry.error();
  return (*entry)->handle;
}

std::shared_ptr<QueueHandle> VhostFace::find_queue(std::string_view queue) {
  std::shared_lock lock(core_.registry.mutex);
  auto entry = vhost_->find_queue(queue);
  return entry ? entry->handle : nullptr;
}

// -- Declaring

void VhostFace::declare_queue(const Actor& actor, QueueDeclare declare,
                              VhostAnswer<QueueDeclared> answer) {
  declare.name = without_line_ends(std::move(declare.name));
  if (is_internal_queue_name(declare.name)) {
    answer(internal_queue(declare.name, name()));
    return;
  }
  if (declare.passive) {
    declare_passive(actor, declare.name, std::move(answer));
    return;
  }
  if (declare.name.empty()) {
    auto prefix = name_prefix(name(), declare.arguments);
    if (!prefix) return answer(prefix.error());
    declare.name = *prefix + random_name(kGeneratedNameChars);
  } else if (is_reserved_name(declare.name)) {
    answer(reserved_queue_name(declare.name));
    return;
  }
  declare_queue_unchecked(actor, std::move(declare), std::move(answer));
}

void VhostFace::declare_queue_unchecked(const Actor& actor, QueueDeclare declare,
                                        VhostAnswer<QueueDeclared> answer) {
  std::shared_lock lock(core_.registry.mutex);
  if (auto right = check(actor, Right::configure, "queue", declare.name); !right) {
    lock.unlock();
    answer(right.error());
    return;
  }
  auto entry = vhost_->find_queue(declare.name);
  give_default_type(declare, entry.get());
  lock.unlock();
  if (entry)
    redeclare_queue(actor, std::move(declare), std::move(entry), std::move(answer));
  else
    create_queue(actor, std::move(declare), std::move(answer));
}

/// A vhost may say of what type those queues are whose declaration does not. One that is there
/// keeps its own.
void VhostFace::give_default_type(QueueDeclare& declare, const QueueEntry* existing) const {
  if (vhost_->about.default_queue_type.empty() || declare.arguments.find("x-queue-type")) return;
  if (!declare.durable || declare.exclusive || declare.auto_delete) return;
  if (existing) {
    if (const FieldValue* type = existing->arguments.find("x-queue-type"))
      declare.arguments.set("x-queue-type", *type);
  } else if (vhost_->about.default_queue_type != "classic") {
    declare.arguments.set("x-queue-type", FieldValue::text(vhost_->about.default_queue_type));
  }
}

void VhostFace::declare_passive(const Actor& actor, const std::string& queue,
                                VhostAnswer<QueueDeclared> answer) {
  std::shared_ptr<QueueEntry> entry;
  std::optional<PeerError> error;
  {
    std::shared_lock lock(core_.registry.mutex);
    entry = vhost_->deleted ? nullptr : vhost_->find_queue(queue);
    if (!entry)
      error = no_queue(queue, name());
    else if (locked_for(*entry, actor))
      error = locked_queue(queue, name());
  }
  if (error) {
    answer(*error);
    return;
  }
  auto gone = [answer, error = no_queue(queue, name())] { answer(error); };
  answer_counts(entry->handle, true, answer, std::move(gone));  // somebody asks for it: a use
}

void VhostFace::redeclare_queue(const Actor& actor, QueueDeclare declare,
                                std::shared_ptr<QueueEntry> entry,
                                VhostAnswer<QueueDeclared> answer) {
  if (locked_for(*entry, actor) || declare.exclusive != entry->identity().exclusive) {
    answer(locked_queue(declare.name, name()));
    return;
  }
  ExistingQueue existing{entry->durable, entry->identity().auto_delete, entry->arguments};
  if (auto same = check_queue_equivalent(name(), declare, existing); !same) {
    answer(same.error());
    return;
  }
  // Equal in value may still be of a type that is none for this argument, as 10.0.
  if (!(declare.arguments == entry->arguments)) {
    if (auto checked = check_queue(name(), declare); !checked) {
      answer(checked.error());
      return;
    }
    if (auto checked = check_foreign_arguments(name(), declare); !checked)
      return answer(checked.error());
  }
  auto self = core_.face(vhost_);
  auto again = [self, kept = KeptActor(actor), declare, answer] {
    self->declare_queue(kept.actor(), declare, answer);
  };
  // It may have been declared a moment ago, and its definition be still on its way to the disk.
  const Stored stored = entry->stored() ? Stored::not_yet : Stored::yes;
  auto counted = [self, stored, answer](Result<QueueDeclared, PeerError> result) {
    const bool good = result.has_value();
    self->tell(answer, std::move(result), good ? stored : Stored::yes);
  };
  answer_counts(entry->handle, true, std::move(counted), std::move(again));
}

void VhostFace::answer_counts(std::shared_ptr<QueueHandle> handle, bool is_use,
                              VhostAnswer<QueueDeclared> answer, std::function<void()> again) {
  ShardDesk* desk = core_.desk();
  TARRY_INVARIANT(desk != nullptr);
  uint64_t token = desk->expect([core = &core_, handle, answer = std::move(answer),
                                 again = std::move(again)](const QueueReply& reply) {
    if (!reply.error) {
      answer(QueueDeclared{handle->identity.name, reply.message_count, reply.consumer_count});
      return;
    }
    if (reply.error->code != 404) {
      answer(*reply.error);
      return;
    }
    core->forget_queue(*handle);
    again();
  });
  handle->stat(is_use, desk->me(), token);
}

Result<void, PeerError> VhostFace::check_dead_letter_rights(const Actor& actor,
                                                            const QueueDeclare& declare) const {
  const FieldValue* dlx = declare.arguments.find("x-dead-letter-exchange");
  if (!dlx || !dlx->text()) return {};
  if (auto right = check(actor, Right::read, "queue", declare.name); !right) return right;
  return check(actor, Right::write, "exchange", *dlx->text());
}

void VhostFace::create_queue(const Actor& actor, QueueDeclare declare,
                             VhostAnswer<QueueDeclared> answer) {
  auto checked = check_queue(name(), declare);
  if (!checked) {
    answer(checked.error());
    return;
  }
  if (auto foreign = check_foreign_arguments(name(), declare); !foreign)
    return answer(foreign.error());
  const auto id = core_.definitions.next_queue_id();
  if (!id) {
    return core_.when_queue_id(
        [self = core_.face(vhost_), kept = KeptActor(actor), declare, answer] {
          // Nobody would delete what an ended connection owns.
          if (declare.exclusive && !self->core_.connections.find(kept.connection)) return;
          self->declare_queue_unchecked(kept.actor(), declare, answer);
        });
  }
  Lock lock(core_.registry.mutex);
  if (auto right = check_dead_letter_rights(actor, declare); !right) {
    lock.unlock();
    answer(right.error());
    return;
  }
  if (vhost_->deleted) {
    lock.unlock();
    answer(PeerError::not_found("no vhost '" + name() + "'"));
    return;
  }
  if (auto other = vhost_->find_queue(declare.name)) {
    lock.unlock();
    redeclare_queue(actor, std::move(declare), std::move(other), std::move(answer));
    return;
  }
  const int64_t limit = vhost_->limit("max-queues");
  auto counts = [](const auto& queue) { return queue.second->identity().holds_for.empty(); };
  if (limit >= 0 && std::ranges::count_if(vhost_->queues, counts) >= limit) {
    lock.unlock();
    answer(PeerError::precondition_failed("cannot declare " + queue_named(declare.name, name()) +
                                          ": queue limit in vhost '" + name() + "' (" +
                                          std::to_string(limit) + ") is reached"));
    return;
  }
  auto entry = std::make_shared<QueueEntry>();
  entry->durable = declare.durable;
  entry->overflow_declared = declare.arguments.find("x-overflow") != nullptr;
  entry->arguments = std::move(declare.arguments);
  entry->declared = checked->settings;
  if (declare.exclusive) entry->exclusive_owner = actor.connection;
  QueueShard& home = *core_.queue_shards[core_.shard_index_of(*id)];
  core_.registry.refresh_policy(*vhost_, checked->identity, *entry);
  entry->handle =
      home.create(*id, checked->identity, core_.registry.effective(checked->identity, *entry));
  core_.registry.add_queue(*vhost_, entry);
  core_.queues_declared.fetch_add(1, std::memory_order_relaxed);
  DefinitionBatch batch;
  if (entry->stored()) {
    batch.puts.emplace_back(definition::queue_key(name(), declare.name),
                            definition::queue_value(*entry));
    core_.commit(lock, std::move(batch));
    return tell(answer, QueueDeclared{std::move(declare.name), 0, 0}, Stored::not_yet);
  }
  lock.unlock();
  answer(QueueDeclared{declare.name, 0, 0});
}

// -- Deleting and emptying

void VhostFace::delete_queue(const Actor& actor, std::string queue, bool if_unused, bool if_empty,
                             VhostAnswer<uint64_t> answer) {
  std::shared_lock lock(core_.registry.mutex);
  auto entry = usable_queue(actor, Right::configure, queue);
  lock.unlock();
  if (!entry) {
    // Deleting what is not there is no error (protocol.md E-50).
    if (entry.error().code == 404)
      answer(success(uint64_t{0}));
    else
      answer(entry.error());
    return;
  }
  ShardDesk* desk = core_.desk();
  TARRY_INVARIANT(desk != nullptr);
  std::shared_ptr<QueueHandle> handle = (*entry)->handle;
  uint64_t token = desk->expect([self = core_.face(vhost_), handle,
                                 answer](const QueueReply& reply) {
    if (reply.error && reply.error->code != 404) {
      answer(*reply.error);
      return;
    }
    self->core_.forget_queue(*handle);
    const uint64_t taken = reply.error ? 0 : reply.message_count;
    self->tell(answer, success(taken), handle->identity.durable ? Stored::not_yet : Stored::yes);
  });
  handle->remove(if_unused, if_empty, desk->me(), token);
}

void VhostFace::purge_queue(const Actor& actor, std::string queue, VhostAnswer<uint64_t> answer) {
  auto handle = [&]() -> Result<std::shared_ptr<QueueHandle>, PeerError> {
    std::shared_lock lock(core_.registry.mutex);
    auto entry = usable_queue(actor, Right::read, queue);
    if (!entry) return entry.error();
    return (*entry)->handle;
  }();
  if (!handle) {
    answer(handle.error());
    return;
  }
  ShardDesk* desk = core_.desk();
  TARRY_INVARIANT(desk != nullptr);
  uint64_t token = desk->expect([handle = *handle, answer](const QueueReply& reply) {
    if (reply.error)
      answer(*reply.error);
    else
      answer(success(reply.message_count));
  });
  (*handle)->purge(desk->me(), token);
}

void VhostFace::connection_closed(ConnectionId connection) {
  if (connection == ConnectionId{}) return;
  // Without a shard the process is ending, and nothing of an exclusive queue outlives it.
  ShardDesk* desk = core_.desk();
  if (!desk) return;
  std::vector<std::shared_ptr<QueueHandle>> owned;
  {
    Lock lock(core_.registry.mutex);
    auto it = vhost_->exclusive.find(connection);
    if (it == vhost_->exclusive.end()) return;
    owned = it->second;
    // Their names are free from here on: a client that comes back at once may declare them again.
    DefinitionBatch batch;
    for (const auto& handle : owned) {
      auto entry = vhost_->find_queue(handle->identity.name);
      if (!entry || entry->handle != handle) continue;
      core_.registry.remove_queue(*vhost_, entry, batch);
      core_.queues_deleted.fetch_add(1, std::memory_order_relaxed);
    }
    core_.commit(lock, std::move(batch));
  }
  for (const auto& handle : owned) {
    uint64_t token = desk->expect([core = &core_, handle](const QueueReply&) {
      // Behind what the queue itself has to do there.
      handle->shard().post([core, id = handle->id] { core->store.remove_queue_directory(id); });
    });
    handle->remove(false, false, desk->me(), token);
  }
}

}  // namespace tarry
