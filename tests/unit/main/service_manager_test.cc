#include "main/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace tarry {
namespace {

/// A service manager's end of the socket.
class ServiceManagerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "tarry-notify-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    path_ = directory_ + "/s";
    fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    ASSERT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  void TearDown() override {
    ::close(fd_);
    std::filesystem::remove_all(directory_);
  }
  /// "" if nothing came.
  std::string received() {
    char text[512];
    const ssize_t size = ::recv(fd_, text, sizeof text, 0);
    return size < 0 ? "" : std::string(text, static_cast<size_t>(size));
  }
  int fd_ = -1;
  std::string directory_, path_;
};

TEST_F(ServiceManagerTest, HearsOfEachStepOfALife) {
  const ServiceManager manager(path_, 1);
  EXPECT_TRUE(manager.ready("amqp 127.0.0.1:5672"));
  EXPECT_EQ(received(), "READY=1\nSTATUS=amqp 127.0.0.1:5672\n");
  EXPECT_TRUE(manager.alive());
  EXPECT_EQ(received(), "WATCHDOG=1\n");
  EXPECT_TRUE(manager.reloading());
  EXPECT_THAT(received(), testing::MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+\n"));
  EXPECT_TRUE(manager.stopping());
  EXPECT_EQ(received().substr(0, 11), "STOPPING=1\n");
}

TEST_F(ServiceManagerTest, IsNotBotheredWithSignsOfLifeThatItDidNotAskFor) {
  EXPECT_FALSE(ServiceManager(path_, 0).alive());
  EXPECT_EQ(received(), "");
}

TEST_F(ServiceManagerTest, ThatIsNotThereIsNoHarm) {
  EXPECT_FALSE(ServiceManager("", 0).ready(""));
  EXPECT_FALSE(ServiceManager(directory_ + "/nobody", 0).ready(""));
  EXPECT_FALSE(ServiceManager("relative", 0).ready(""));
  EXPECT_FALSE(ServiceManager("/" + std::string(200, 'x'), 0).ready(""));
}

TEST_F(ServiceManagerTest, WatchesTheProcessThatItMeans) {
  ::setenv("NOTIFY_SOCKET", path_.c_str(), 1);
  ::setenv("WATCHDOG_USEC", "5000000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  EXPECT_EQ(ServiceManager::from_environment().watchdog_us(), 5'000'000u);
  EXPECT_TRUE(ServiceManager::from_environment().alive());
  ::setenv("WATCHDOG_PID", "1", 1);
  EXPECT_EQ(ServiceManager::from_environment().watchdog_us(), 0u);
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
}

}  // namespace
}  // namespace tarry
