/* Loaded before the C library: writes down, in order, everything that is done to files in one folder.

   Each record is a line "operation name offset length" and, for a write, its bytes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static int record = -1;

/* The name of a watched file inside the folder, "." for the folder; NULL for all others. */
static const char *watched(const char *path) {
    const char *folder = getenv("HOLDFAST_WATCHED");
    size_t length = folder ? strlen(folder) : 0;
    if (!length || strncmp(path, folder, length)) return NULL;
    if (!path[length]) return ".";
    return path[length] == '/' ? path + length + 1 : NULL;
}

static const char *name_of(int fd, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0) return NULL;
    path[length] = 0;
    return watched(path);
}

static void put(const void *bytes, size_t left) {
    const char *next = bytes;
    while (left) {
        long done = syscall(SYS_write, record, next, left);
        if (done <= 0) abort();
        next += done;
        left -= done;
    }
}

static void note(char operation, const char *name, long offset, const void *bytes, size_t length) {
    char line[512];
    if (record < 0) record = open(getenv("HOLDFAST_RECORD"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    put(line, snprintf(line, sizeof line, "%c %s %ld %zu\n", operation, name, offset, length));
    if (bytes) put(bytes, length);
}

/* The record keeps the order in which the operations were done: both happen under one lock. */
#define DONE(type, operation, fd, offset, bytes, length, call)                                  \
    char path[4096];                                                                            \
    const char *name = name_of(fd, path, sizeof path);                                          \
    if (!name) return call;                                                                     \
    pthread_mutex_lock(&order);                                                                 \
    type result = call;                                                                         \
    if (result >= 0) note(operation, name, offset, bytes, bytes ? (size_t)result : (size_t)(length)); \
    pthread_mutex_unlock(&order);                                                               \
    return result

#define REAL(type, name, ...) type (*real)(__VA_ARGS__) = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    DONE(ssize_t, 'w', fd, (long)offset, bytes, length, real(fd, bytes, length, offset));
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    return pwrite64(fd, bytes, length, offset);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    REAL(ssize_t, "write", int, const void *, size_t);
    long offset = lseek(fd, 0, SEEK_CUR);
    DONE(ssize_t, 'w', fd, offset, bytes, length, real(fd, bytes, length));
}

int fsync(int fd) {
    REAL(int, "fsync", int);
    DONE(int, 's', fd, 0L, NULL, 0, real(fd));
}

int fdatasync(int fd) {
    REAL(int, "fdatasync", int);
    DONE(int, 's', fd, 0L, NULL, 0, real(fd));
}

int ftruncate64(int fd, off64_t length) {
    REAL(int, "ftruncate64", int, off64_t);
    DONE(int, 't', fd, (long)length, NULL, 0, real(fd, length));
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    const char *name = watched(path);
    if (!name) return real(path);
    pthread_mutex_lock(&order);
    int result = real(path);
    if (!result) note('u', name, 0, NULL, 0);
    pthread_mutex_unlock(&order);
    return result;
}
