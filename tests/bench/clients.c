/* The small programs of the benchmark, so that its own part in a figure stays small.
 *
 *   clients loop N FILE COMMAND…   runs the command N times, one after the other; a line of
 *                                  nanoseconds each into FILE; prints how many failed
 *   clients stamp [SCRIPT]         prints the wall clock in nanoseconds; as `#!/…/stamp` of a
 *                                  script it is the first thing that a job does
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static long long nanoseconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int stamp(void) {
    char text[32];
    int length = snprintf(text, sizeof text, "%lld\n", nanoseconds(CLOCK_REALTIME));
    return write(1, text, (size_t)length) == length ? 0 : 1;
}

static int loop(long times, const char *file, char **command) {
    FILE *out = fopen(file, "w");
    if (!out) return 2;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd < 2; fd++)
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    long failed = 0;
    for (long i = 0; i < times; i++) {
        long long since = nanoseconds(CLOCK_MONOTONIC);
        pid_t child;
        int status = 0;
        if (posix_spawnp(&child, command[0], &actions, NULL, command, environ)) { failed++; continue; }
        waitpid(child, &status, 0);
        if (status) failed++;
        fprintf(out, "%lld\n", nanoseconds(CLOCK_MONOTONIC) - since);
    }
    fclose(out);
    printf("%ld\n", failed);
    return 0;
}

int main(int count, char **words) {
    const char *own = strrchr(words[0], '/');
    if (!strcmp(own ? own + 1 : words[0], "stamp")) return stamp();
    if (count >= 5 && !strcmp(words[1], "loop")) return loop(atol(words[2]), words[3], words + 4);
    fprintf(stderr, "usage: clients loop N FILE COMMAND… ; or called as stamp\n");
    return 2;
}
