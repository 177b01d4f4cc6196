// Refuses or ends a process at one of its system calls on files below a folder (LD_PRELOAD).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN, WRITE, FSYNC, CHMOD, RENAME, FLOCK, MKDIR, UNLINK, READ, CLOSE, RMDIR, ANY };

static char folder[4096];
static int chosen = -1, place, ending, lasting, reason;
static int calls[ANY + 1];

// From now on the call `number` of a kind is refused with `error`, all later ones too if it
// `lasts`; with a `signal` the process gets that signal before the call.
void refuse(const char *below, int kind, int number, int error, int lasts, int signal_number) {
    snprintf(folder, sizeof folder, "%s", below);
    place = number, reason = error, lasting = lasts, ending = signal_number;
    memset(calls, 0, sizeof calls);
    chosen = kind;
}

int calls_made(int kind) { return calls[kind]; }

static int refused(int kind, const char *path) {
    if (chosen < 0 || (path[0] == '/' && strncmp(path, folder, strlen(folder)))) return 0;
    calls[kind]++, calls[ANY]++;
    if (chosen != ANY && chosen != kind) return 0;
    if (calls[chosen] < place || (calls[chosen] > place && !lasting)) return 0;
    if (ending) {
        kill(getpid(), ending);
        return 0;
    }
    errno = reason;
    return 1;
}

static int refused_file(int kind, int file) {
    char name[64], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    ssize_t size = readlink(name, path, sizeof path - 1);
    if (chosen < 0 || size < 0) return 0;
    path[size] = 0;
    return refused(kind, path);
}

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))
#define MODE                                  \
    mode_t mode = 0;                          \
    if (flags & (O_CREAT | O_TMPFILE)) {      \
        va_list more;                         \
        va_start(more, flags);                \
        mode = va_arg(more, mode_t);          \
        va_end(more);                         \
    }

int open(const char *path, int flags, ...) {
    MODE return refused(OPEN, path) ? -1 : REAL(open)(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    MODE return refused(OPEN, path) ? -1 : REAL(open64)(path, flags, mode);
}
int openat(int at, const char *path, int flags, ...) {
    MODE return refused(OPEN, path) ? -1 : REAL(openat)(at, path, flags, mode);
}
int openat64(int at, const char *path, int flags, ...) {
    MODE return refused(OPEN, path) ? -1 : REAL(openat64)(at, path, flags, mode);
}
ssize_t write(int file, const void *data, size_t size) {
    if (!refused_file(WRITE, file)) return REAL(write)(file, data, size);
    REAL(write)(file, data, size / 2);  // as where the disk gets full within a call
    errno = reason;
    return -1;
}
int fsync(int file) { return refused_file(FSYNC, file) ? -1 : REAL(fsync)(file); }
int chmod(const char *path, mode_t mode) {
    return refused(CHMOD, path) ? -1 : REAL(chmod)(path, mode);
}
int fchmodat(int at, const char *path, mode_t mode, int flags) {
    return refused(CHMOD, path) ? -1 : REAL(fchmodat)(at, path, mode, flags);
}
int rename(const char *from, const char *to) {
    return refused(RENAME, to) ? -1 : REAL(rename)(from, to);
}
int flock(int file, int how) { return refused_file(FLOCK, file) ? -1 : REAL(flock)(file, how); }
int mkdir(const char *path, mode_t mode) {
    return refused(MKDIR, path) ? -1 : REAL(mkdir)(path, mode);
}
int unlink(const char *path) { return refused(UNLINK, path) ? -1 : REAL(unlink)(path); }
ssize_t read(int file, void *data, size_t size) {
    return refused_file(READ, file) ? -1 : REAL(read)(file, data, size);
}
int close(int file) {  // as where a network drive writes what it holds, and has no room
    int bad = refused_file(CLOSE, file), done = REAL(close)(file);
    if (!bad) return done;
    errno = reason;
    return -1;
}
int rmdir(const char *path) { return refused(RMDIR, path) ? -1 : REAL(rmdir)(path); }
