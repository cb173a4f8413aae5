#include "session/channel.h"
#include "session/connection_impl.h"

namespace tarry {

void Channel::on(const method::ConfirmSelect& m) {
  if (tx_) {
    return connection_.fail(
        this, PeerError::precondition_failed("cannot switch from tx to confirm mode"));
  }
  if (!confirms_) confirms_ = std::make_unique<Confirms>();
  figures_->confirm.store(true, std::memory_order_relaxed);
  if (!m.no_wait) connection_.send(number, method::ConfirmSelectOk{});
}

void Channel::on(const method::TxSelect&) {
  if (confirms_) {
    return connection_.fail(
        this, PeerError::precondition_failed("cannot switch from confirm to tx mode"));
  }
  if (!tx_) tx_ = std::make_unique<Transaction>();
  figures_->transactional.store(true, std::memory_order_relaxed);
  connection_.send(number, method::TxSelectOk{});
}

/// Publishes first; once they are stored (durably, where that is owed) the settlements; once those
/// are durable, commit-ok. The other order could lose messages in a crash (design-notes 3, row
/// "tx").
void Channel::on(const method::TxCommit&) {
  if (!tx_)
    return connection_.fail(this, PeerError::precondition_failed("channel is not transactional"));
  tx_->committing = true;
  tx_->refused = 0;
  tx_->stores_left = 0;
  tx_->syncs_left = 0;
  connection_.begin_wait();
  if (!commit_publishes()) return;
  // The rest at the turn's end, or when the last queue has answered.
  connection_.touch(*this);
}

bool Channel::commit_publishes() {
  std::vector<Transaction::Publish> publishes;
  publishes.swap(tx_->publishes);
  for (const auto& p : publishes) {
    auto view = PropertiesView::parse(as_bytes(p.header));
    TARRY_INVARIANT(view.has_value());  // it was when it was published
    PublishRequest request;
    request.route = as_bytes(p.route);
    request.header = as_bytes(p.header);
    request.body = as_bytes(p.body);
    publish(request, p.mandatory, *view);
    if (closing_ || !tx_) return false;  // e.g. the exchange was deleted meanwhile
  }
  return true;
}

void Channel::continue_commit() {
  if (!tx_ || !tx_->committing || tx_->syncing || tx_->stores_left > 0) return;
  if (tx_->refused > 0) {
    return connection_.fail(
        this,
        PeerError::precondition_failed(
            "partial tx completion: " + std::to_string(tx_->refused) +
            " publishes were refused by their queues, the acknowledgements were not applied"),
        method_id::tx_commit);
  }
  tx_->syncing = true;
  std::vector<Transaction::Settlement> settlements;
  settlements.swap(tx_->settlements);
  std::vector<std::shared_ptr<QueueHandle>> queues;
  for (const auto& s : settlements) {
    if (s.word) {
      send_word(s.run, *s.word);
    } else {
      give_back(s.run, s.outcome);
    }
    if (std::find(queues.begin(), queues.end(), s.run.queue->handle) == queues.end()) {
      queues.push_back(s.run.queue->handle);
    }
    connection_.queues().release(*s.run.queue);
  }
  connection_.queues().flush();
  tx_->syncs_left = queues.size();
  if (queues.empty()) return commit_done();
  for (const auto& queue : queues) {
    const uint64_t token =
        connection_.expect_reply(*this, false, [](Channel* channel, const QueueReply&) {
          // A queue that is gone has nothing left to be durable.
          if (channel && channel->tx_ && channel->tx_->syncs_left > 0 &&
              --channel->tx_->syncs_left == 0) {
            channel->commit_done();
          }
        });
    queue->sync(connection_.requester(), token);
  }
}

void Channel::commit_done() {
  noted_in_.clear();
  tx_->committing = false;
  tx_->syncing = false;
  connection_.send(number, method::TxCommitOk{});
  connection_.touch(*this);
  connection_.end_wait();
}

void Channel::on(const method::TxRollback&) {
  if (!tx_)
    return connection_.fail(this, PeerError::precondition_failed("channel is not transactional"));
  tx_->publishes.clear();
  rollback_settlements();
  connection_.touch(*this);
  connection_.send(number, method::TxRollbackOk{});
}

/// They become unacknowledged again, at their place.
void Channel::rollback_settlements() {
  for (const auto& s : tx_->settlements) unacked_.put_back(s.run);
  tx_->settlements.clear();
}

}  // namespace tarry
