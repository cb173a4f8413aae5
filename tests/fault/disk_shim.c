/* A disk that fails when told to: LD_PRELOAD into the daemon.
 *   DISK_SHIM_DIR   files below it are on the bad disk
 *   DISK_SHIM_WORD  a file of one byte, shared with the test, that says what is wrong at present:
 *     '0' nothing   'F' no room: writes fail with ENOSPC   'E' EIO on writes   'Y' EIO on syncs
 *     'S' a sync takes 2 s   'M' EMFILE on open
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static volatile const char* word;
static const char* dir;
static size_t dir_bytes;

__attribute__((constructor)) static void begin(void) {
  const char* path = getenv("DISK_SHIM_WORD");
  dir = getenv("DISK_SHIM_DIR");
  if (!path || !dir) return;
  dir_bytes = strlen(dir);
  int (*real_open)(const char*, int, ...) = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, "open");
  int fd = real_open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  void* p = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (p != MAP_FAILED) word = p;
}

static char now(void) { return word ? *word : '0'; }

static int on_bad_disk(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  return n > 0 && (size_t)n > dir_bytes && strncmp(path, dir, dir_bytes) == 0;
}

static int write_fails(int fd) {
  char w = now();
  if ((w != 'F' && w != 'E') || !on_bad_disk(fd)) return 0;
  errno = w == 'F' ? ENOSPC : EIO;
  return 1;
}

static int sync_fails(int fd) {
  char w = now();
  if ((w != 'Y' && w != 'S') || !on_bad_disk(fd)) return 0;
  if (w == 'S') {
    struct timespec two = {2, 0};
    nanosleep(&two, NULL);
    return 0;
  }
  errno = EIO;
  return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void* p, size_t n) { return write_fails(fd) ? -1 : REAL(write)(fd, p, n); }
ssize_t pwrite(int fd, const void* p, size_t n, off_t at) { return write_fails(fd) ? -1 : REAL(pwrite)(fd, p, n, at); }
ssize_t pwrite64(int fd, const void* p, size_t n, off64_t at) {
  return write_fails(fd) ? -1 : REAL(pwrite64)(fd, p, n, at);
}
ssize_t pwritev(int fd, const struct iovec* v, int n, off_t at) {
  return write_fails(fd) ? -1 : REAL(pwritev)(fd, v, n, at);
}
ssize_t pwritev64(int fd, const struct iovec* v, int n, off64_t at) {
  return write_fails(fd) ? -1 : REAL(pwritev64)(fd, v, n, at);
}
int fdatasync(int fd) { return sync_fails(fd) ? -1 : REAL(fdatasync)(fd); }
int fsync(int fd) { return sync_fails(fd) ? -1 : REAL(fsync)(fd); }
int syncfs(int fd) { return sync_fails(fd) ? -1 : REAL(syncfs)(fd); }
int sync_file_range(int fd, off64_t at, off64_t n, unsigned flags) {
  return flags && sync_fails(fd) ? -1 : REAL(sync_file_range)(fd, at, n, flags);
}

static int open_fails(const char* path) {
  if (now() != 'M' || strncmp(path, dir, dir_bytes) != 0) return 0;
  errno = EMFILE;
  return 1;
}

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return open_fails(path) ? -1 : REAL(open)(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return open_fails(path) ? -1 : REAL(open64)(path, flags, mode);
}
