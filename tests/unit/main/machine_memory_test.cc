#include "main/machine_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tarry {
namespace {

constexpr uint64_t kMiB = 1 << 20;

/// A /proc and a /sys of its own.
class MachineMemory : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "machine_memory_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  static uint64_t all() {
    return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
           static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  }

  std::string root_;
};

TEST_F(MachineMemory, WithoutControlGroupsItIsTheMachines) {
  EXPECT_EQ(machine_memory(root_), all());
}

TEST_F(MachineMemory, AContainersBoundCounts) {
  write("/proc/self/cgroup", "0::/");
  write("/sys/fs/cgroup/memory.max", "67108864");
  EXPECT_EQ(machine_memory(root_), 64 * kMiB);
}

TEST_F(MachineMemory, AUnitsBoundCounts) {
  write("/proc/self/cgroup", "0::/system.slice/tarrymq.service");
  write("/sys/fs/cgroup/system.slice/tarrymq.service/memory.max", "33554432");
  EXPECT_EQ(machine_memory(root_), 32 * kMiB);
}

TEST_F(MachineMemory, TheLeastBoundOnTheWayUpCounts) {
  write("/proc/self/cgroup", "0::/system.slice/tarrymq.service");
  write("/sys/fs/cgroup/system.slice/tarrymq.service/memory.max", "max");
  write("/sys/fs/cgroup/system.slice/memory.max", "16777216");
  EXPECT_EQ(machine_memory(root_), 16 * kMiB);
}

TEST_F(MachineMemory, OfVersionOneTheMemoryControllersBoundCounts) {
  write("/proc/self/cgroup", "5:cpu,cpuacct:/box\n4:hugetlb,memory:/box\n0::/");
  write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "67108864");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(machine_memory(root_), 64 * kMiB);
}

TEST_F(MachineMemory, APathOfTheOutsideLeadsToTheContainersOwnFolder) {
  write("/proc/self/cgroup", "4:memory:/docker/0123abcd");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "67108864");
  EXPECT_EQ(machine_memory(root_), 64 * kMiB);
}

TEST_F(MachineMemory, NoBoundIsTheMachines) {
  write("/proc/self/cgroup", "4:memory:/\n0::/");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  write("/sys/fs/cgroup/memory.max", "max");
  EXPECT_EQ(machine_memory(root_), all());
}

TEST_F(MachineMemory, LinesThatAreNoGroupsAreNoTrouble) {
  write("/proc/self/cgroup", "\n:\n::\n0:\n0::relative\n4:memory\nwords");
  EXPECT_EQ(machine_memory(root_), all());
}

}  // namespace
}  // namespace tarry
