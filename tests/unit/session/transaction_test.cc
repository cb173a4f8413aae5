#include "unit/session/harness.h"

namespace tarry::testing {
namespace {

class Tx : public SessionTest {
 protected:
  void open() {
    access.vhost->add("q");
    open_connection();
    open_channel(1);
    say(1, method::TxSelect{});
    expect(1, method_id::tx_select_ok);
  }
};

TEST_F(Tx, PublishesThenSettlementsThenSyncThenCommitOk) {
  open();
  consume();
  deliver(0, {"a", "b"});
  take();
  queue().confirm_at_once = false;
  queue().hold_replies = true;
  queue().order.clear();
  publish(1, "", "q", "x");
  publish(1, "", "q", "y");
  say(1, method::BasicReject{1, true});
  expect_nothing();
  EXPECT_TRUE(queue().published.empty());
  EXPECT_TRUE(queue().settled.empty());
  say(1, method::TxCommit{});
  expect_nothing();
  EXPECT_EQ(queue().order, (std::vector<std::string>{"publish", "publish"}));
  on_shard([&] { queue().confirm(1, 1); });
  EXPECT_TRUE(queue().settled.empty());
  on_shard([&] { queue().confirm(2, 2); });
  EXPECT_EQ(queue().order, (std::vector<std::string>{"publish", "publish", "settle", "sync"}));
  EXPECT_EQ(queue().settled.at(0).outcome, Outcome::reject_requeue);
  expect_nothing();
  on_shard([&] { queue().release_held(); });
  expect(1, method_id::tx_commit_ok);
}

TEST_F(Tx, AnEmptyCommitIsAnsweredAtOnce) {
  open();
  say(1, method::TxCommit{});
  expect(1, method_id::tx_commit_ok);
}

TEST_F(Tx, NothingIsTakenWhileCommitting) {
  open();
  queue().confirm_at_once = false;
  publish(1, "", "q", "x");
  say(1, method::TxCommit{});
  publish(1, "", "q", "y");
  say(1, method::TxCommit{});
  expect_nothing();
  EXPECT_EQ(queue().published.size(), 1u);
  on_shard([&] { queue().confirm(1, 1); });
  expect(1, method_id::tx_commit_ok);
  EXPECT_EQ(queue().published.size(), 2u);
}

TEST_F(Tx, Rule9_RollbackUndoesARejection) {
  open();
  consume();
  deliver(0, {"a", "b", "c"});
  take();
  publish(1, "", "q", "x");
  say(1, method::BasicReject{2, true});
  say(1, method::TxRollback{});
  expect(1, method_id::tx_rollback_ok);
  EXPECT_TRUE(queue().published.empty());
  EXPECT_TRUE(queue().settled.empty());
  say(1, method::BasicAck{3, true});
  say(1, method::TxCommit{});
  expect(1, method_id::tx_commit_ok);
  ASSERT_EQ(queue().settled.size(), 1u);
  EXPECT_EQ(queue().settled[0].run.run.count, 3u);
}

TEST_F(Tx, TheSameTagTwiceIs406) {
  open();
  consume();
  deliver(0, {"a"});
  take();
  say(1, method::BasicAck{1, false});
  say(1, method::BasicAck{1, false});
  expect_channel_close(1, 406, "unknown delivery tag 1", method_id::basic_ack);
  ASSERT_EQ(queue().settled.size(), 1u);
  EXPECT_EQ(queue().settled[0].outcome, Outcome::channel_closed) << "the transaction was dropped";
}

TEST_F(Tx, ARefusedPublishFailsTheCommitAndNothingIsSettled) {
  open();
  consume();
  deliver(0, {"a"});
  take();
  queue().refuse = true;
  publish(1, "", "q", "x");
  say(1, method::BasicAck{1, false});
  say(1, method::TxCommit{});
  expect_channel_close(1, 406, "partial tx completion", method_id::tx_commit);
  ASSERT_EQ(queue().settled.size(), 1u);
  EXPECT_EQ(queue().settled[0].outcome, Outcome::channel_closed);
  open_channel(1);  // the connection reads on
}

TEST_F(Tx, AConnectionLostWhileCommittingGivesBackWhatIsUnsettled) {
  open();
  consume();
  deliver(0, {"a"});
  take();
  queue().confirm_at_once = false;
  publish(1, "", "q", "x");
  say(1, method::BasicAck{1, false});
  say(1, method::TxCommit{});
  pump();
  on_shard([&] { connection->on_closed(); });
  ASSERT_EQ(queue().settled.size(), 1u);
  EXPECT_EQ(queue().settled[0].outcome, Outcome::channel_closed);
  on_shard([&] { queue().confirm(1, 1); });
}

TEST_F(Tx, ModesDoNotMix) {
  open();
  say(1, method::ConfirmSelect{});
  expect_channel_close(1, 406, "cannot switch from tx to confirm mode", method_id::confirm_select);
  open_channel(1);
  say(1, method::ConfirmSelect{});
  expect(1, method_id::confirm_select_ok);
  say(1, method::ConfirmSelect{});
  expect(1, method_id::confirm_select_ok);
  say(1, method::TxSelect{});
  expect_channel_close(1, 406, "cannot switch from confirm to tx mode", method_id::tx_select);
}

TEST_F(Tx, CommitAndRollbackNeedSelect) {
  open();
  open_channel(2);
  say(2, method::TxCommit{});
  expect_channel_close(2, 406, "channel is not transactional", method_id::tx_commit);
  open_channel(2);
  say(2, method::TxRollback{});
  expect_channel_close(2, 406, "channel is not transactional", method_id::tx_rollback);
}

TEST_F(Tx, UnroutableMandatoryIsReturnedAtTheCommit) {
  open();
  publish(1, "", "nowhere", "x", true);
  expect_nothing();
  say(1, method::TxCommit{});
  take();
  ASSERT_EQ(got.size(), 4u);
  EXPECT_EQ(got[0].id(), method_id::basic_return);
  EXPECT_EQ(got[3].id(), method_id::tx_commit_ok);
}

}  // namespace
}  // namespace tarry::testing
