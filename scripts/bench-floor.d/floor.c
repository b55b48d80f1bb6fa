// A bare receive loop: N connections, one request each (or several, one after the other), and nothing but reading
// and counting. What a client built on the same system calls cannot go below.
//
// Raw io_uring system calls (io_uring_setup(2), io_uring_enter(2), io_uring_register(2)), no library.
// One clock read per wake-up, as a harness that stamps needs. CPU time is this thread's, from the moment
// before the first send to the end of the last reply.
//
//   recv          multishot recv, provided-buffer ring
//   recvmsg       multishot recvmsg with SO_TIMESTAMPING, provided-buffer ring, TX stamps by the socket command
//   recvmsg-pb    the same with buffers given by IORING_OP_PROVIDE_BUFFERS
//   epoll         epoll_wait + read
//   epoll-stamps  epoll_wait + recvmsg with SO_TIMESTAMPING, TX stamps from the error queue
//
// --verify checks every line of every reply; --no-tx leaves the TX stamp commands of the ring variants out.
// With --verify each completion slot is overwritten once it was read: on Linux 6.18 the ring's tail now and then passes a
// slot that was never filled anew (about once in a million reads with TX stamps on). Its old content, taken for a
// completion, names a buffer that is the kernel's. Such slots are counted and skipped.
// Prints one JSON object. Exit status: 0, 1 when something could not be done or a reply did not end in time,
// 3 when --verify found bytes that are not those of the stream.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/io_uring.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif
#define SOCKET_CMD_TX_TIMESTAMP 4      // SOCKET_URING_OP_TX_TIMESTAMP, Linux 6.17
#define STAMPING_OPT_ID_TCP (1U << 16) // SOF_TIMESTAMPING_OPT_ID_TCP, Linux 6.2

enum { BUFFER_BYTES = 4096, BUFFERS = 1024, CONTROL_BYTES = 128, SQ_ENTRIES = 512, SENDS_PER_ENTER = 64 };
enum { OP_RECEIVE, OP_SEND, OP_STAMP, OP_PROVIDE };

enum variant { RECV, RECVMSG, RECVMSG_PB, EPOLL, EPOLL_STAMPS, VARIANTS };
static const char *names[VARIANTS] = {"recv", "recvmsg", "recvmsg-pb", "epoll", "epoll-stamps"};

static enum variant variant;
static bool verify, no_tx;
static int port, streams = 1000, tokens = 100, rounds = 1, limit_s = 60, core = -1;

struct stream {
    int fd;
    int left; // requests still to end
    // only with --verify
    char line[2048], id[40];
    int len, next;
};
static struct stream *conns;
static char request[1024];
static int request_len;

// what is counted
static uint64_t reads, bytes, wakeups, enobufs, rearmed, rx_stamps, tx_stamps, twice, odd, stale, bad_lines, good_events;
static uint64_t latest_stamp; // read so that the stamps are really looked at
static int live;
static struct timespec woke;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "floor: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    exit(1);
}

static double seconds(struct timespec t) { return t.tv_sec + t.tv_nsec / 1e9; }

static struct timespec read_clock(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return t;
}

// ---- what the bytes say ---------------------------------------------------------------------------------------

static void bad(struct stream *s, const char *why) {
    if (bad_lines++ < 10)
        fprintf(stderr, "floor: stream %ld, token %d expected, %s: %.*s\n", s - conns, s->next, why,
                s->len > 200 ? 200 : s->len, s->line);
}

// One line of a reply must be one that this reply can have: head, chunk size, blank, or an event with this
// stream's id and its next number.
static void check_line(struct stream *s) {
    char *line = s->line;
    line[s->len] = 0;
    if (strncmp(line, "data: {", 7) == 0) {
        char *id = strstr(line, "chatcmpl-"), *text = strstr(line, "\"content\":\"t");
        if (!id)
            return bad(s, "no id");
        if (!s->id[0])
            snprintf(s->id, sizeof s->id, "%.25s", id);
        else if (strncmp(s->id, id, strlen(s->id)))
            return bad(s, "another stream's id");
        if (text) {
            if (atoi(text + 12) != s->next)
                return bad(s, "wrong number");
            s->next++;
            good_events++;
        }
        if (line[s->len - 1] != '}')
            return bad(s, "cut");
        return;
    }
    if (s->len == 0 || strcmp(line, "data: [DONE]") == 0 || strncmp(line, "HTTP/1.1 200", 12) == 0 ||
        strncmp(line, "server: ", 8) == 0 || strncmp(line, "content-type: ", 14) == 0 ||
        strncmp(line, "transfer-encoding: ", 19) == 0)
        return;
    for (int i = 0; i < s->len; i++)
        if (!strchr("0123456789abcdefABCDEF", line[i]))
            return bad(s, "no line of this reply");
}

static void check_bytes(struct stream *s, const char *p, int n) {
    for (int i = 0; i < n; i++) {
        if (p[i] == '\n') {
            if (s->len > 0 && s->line[s->len - 1] == '\r')
                s->len--;
            check_line(s);
            s->len = 0;
        } else if (s->len < (int)sizeof s->line - 1) {
            s->line[s->len++] = p[i];
        }
    }
}

// True when the reply ended in this read. The mock writes the end of a reply in one piece.
static bool take(struct stream *s, const char *p, int n) {
    reads++;
    bytes += n;
    if (verify)
        check_bytes(s, p, n);
    if (n < 5 || memcmp(p + n - 5, "0\r\n\r\n", 5) != 0)
        return false;
    if (verify) {
        if (s->next != tokens)
            bad(s, "the reply ended early");
        s->next = 0;
        s->id[0] = 0;
    }
    if (--s->left == 0)
        live--;
    return true;
}

static void look_at_stamp(const char *control, size_t len) {
    struct msghdr m = {.msg_control = (void *)control, .msg_controllen = len};
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPING)
            continue;
        struct timespec t;
        memcpy(&t, CMSG_DATA(c), sizeof t);
        latest_stamp = (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
        rx_stamps += latest_stamp != 0;
    }
}

// ---- connections ----------------------------------------------------------------------------------------------

static bool with_stamps(void) { return variant == RECVMSG || variant == RECVMSG_PB || variant == EPOLL_STAMPS; }

static int connect_one(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        die("connect to port %d: %s", port, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    unsigned flags = SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_TX_SOFTWARE |
                     SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY | STAMPING_OPT_ID_TCP;
    if (with_stamps() && setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags) < 0)
        die("SO_TIMESTAMPING: %s", strerror(errno));
    if (variant == EPOLL || variant == EPOLL_STAMPS)
        fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

// ---- io_uring -------------------------------------------------------------------------------------------------

static int ring_fd;
static unsigned *sq_head, *sq_tail, *cq_head, *cq_tail, *cq_overflow, sq_mask, cq_mask, cqe_shift;
static struct io_uring_sqe *sqes;
static char *cqes;
static char *pool;
static struct io_uring_buf_ring *buffer_ring;
static uint16_t buffer_tail;
static uint16_t handled[BUFFERS];
static int n_handled;
static bool lent[BUFFERS]; // with the kernel, as far as we know
static struct msghdr message;
static unsigned queued;

static void enter(unsigned wait, unsigned flags) {
    struct __kernel_timespec patience = {.tv_nsec = 50000000};
    struct io_uring_getevents_arg arg = {.ts = (uint64_t)(uintptr_t)&patience};
    unsigned all = flags | IORING_ENTER_EXT_ARG | IORING_ENTER_REGISTERED_RING;
    int n = syscall(__NR_io_uring_enter, ring_fd, queued, wait, all, &arg, sizeof arg);
    if (n < 0 && errno != ETIME && errno != EINTR && errno != EAGAIN && errno != EBUSY)
        die("io_uring_enter: %s", strerror(errno));
    queued = *sq_tail - __atomic_load_n(sq_head, __ATOMIC_ACQUIRE);
}

static struct io_uring_sqe *sqe(int op, uint64_t socket) {
    while (*sq_tail - __atomic_load_n(sq_head, __ATOMIC_ACQUIRE) > sq_mask)
        enter(0, 0);
    struct io_uring_sqe *e = &sqes[*sq_tail & sq_mask];
    memset(e, 0, sizeof *e);
    e->user_data = (uint64_t)op << 32 | socket;
    __atomic_store_n(sq_tail, *sq_tail + 1, __ATOMIC_RELEASE);
    queued++;
    return e;
}

static void ring_up(void) {
    struct io_uring_params p = {0};
    p.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE;
    if (variant != RECV)
        p.flags |= IORING_SETUP_CQE32;
    cqe_shift = variant != RECV ? 5 : 4;
    p.cq_entries = 4096;
    while (p.cq_entries < 8 * (unsigned)streams)
        p.cq_entries *= 2;
    int fd = syscall(__NR_io_uring_setup, SQ_ENTRIES, &p);
    if (fd < 0)
        die("io_uring_setup: %s", strerror(errno));
    size_t sq_bytes = p.sq_off.array + p.sq_entries * sizeof(unsigned);
    size_t cq_bytes = p.cq_off.cqes + ((size_t)p.cq_entries << cqe_shift);
    size_t map_bytes = sq_bytes > cq_bytes ? sq_bytes : cq_bytes;
    char *rings = mmap(0, map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQ_RING);
    sqes = mmap(0, p.sq_entries * sizeof *sqes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQES);
    if (rings == MAP_FAILED || sqes == MAP_FAILED)
        die("mmap of the rings: %s", strerror(errno));
    sq_head = (unsigned *)(rings + p.sq_off.head), sq_tail = (unsigned *)(rings + p.sq_off.tail);
    sq_mask = p.sq_entries - 1;
    cq_head = (unsigned *)(rings + p.cq_off.head), cq_tail = (unsigned *)(rings + p.cq_off.tail);
    cq_overflow = (unsigned *)(rings + p.cq_off.overflow), cq_mask = p.cq_entries - 1;
    cqes = rings + p.cq_off.cqes;
    unsigned *array = (unsigned *)(rings + p.sq_off.array);
    for (unsigned i = 0; i < p.sq_entries; i++)
        array[i] = i;
    struct io_uring_rsrc_update registered = {.offset = -1U, .data = fd};
    if (syscall(__NR_io_uring_register, fd, IORING_REGISTER_RING_FDS, &registered, 1) != 1)
        die("IORING_REGISTER_RING_FDS: %s", strerror(errno));
    ring_fd = registered.offset;
    pool = mmap(0, BUFFERS * BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (variant != RECVMSG_PB) {
        buffer_ring = mmap(0, BUFFERS * sizeof(struct io_uring_buf), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        struct io_uring_buf_reg reg = {.ring_addr = (uintptr_t)buffer_ring, .ring_entries = BUFFERS};
        if (syscall(__NR_io_uring_register, fd, IORING_REGISTER_PBUF_RING, &reg, 1) < 0)
            die("IORING_REGISTER_PBUF_RING: %s", strerror(errno));
    }
    for (int i = 0; i < BUFFERS; i++)
        handled[n_handled++] = i;
    message.msg_controllen = CONTROL_BYTES;
}

// Gives handled buffers back: by the ring's tail, or by one entry for each run of them.
static void give_back(void) {
    for (int i = 0; i < n_handled; i++) {
        lent[handled[i]] = true;
        if (verify && variant != RECV) // a completion that names it without having written it is found by this
            memset(pool + (size_t)handled[i] * BUFFER_BYTES, 0xff, sizeof(struct io_uring_recvmsg_out));
    }
    if (buffer_ring) {
        for (int i = 0; i < n_handled; i++) {
            struct io_uring_buf *b = &buffer_ring->bufs[buffer_tail++ & (BUFFERS - 1)];
            b->addr = (uintptr_t)pool + (size_t)handled[i] * BUFFER_BYTES;
            b->len = BUFFER_BYTES;
            b->bid = handled[i];
        }
        __atomic_store_n(&buffer_ring->tail, buffer_tail, __ATOMIC_RELEASE);
    } else {
        for (int i = 0, run; i < n_handled; i += run) {
            for (run = 1; i + run < n_handled && handled[i + run] == handled[i] + run;)
                run++;
            struct io_uring_sqe *e = sqe(OP_PROVIDE, 0);
            e->opcode = IORING_OP_PROVIDE_BUFFERS;
            e->fd = run;
            e->addr = (uintptr_t)pool + (size_t)handled[i] * BUFFER_BYTES;
            e->len = BUFFER_BYTES;
            e->off = handled[i];
            e->flags = IOSQE_CQE_SKIP_SUCCESS;
        }
    }
    n_handled = 0;
}

static void arm_receive(int i) {
    struct io_uring_sqe *e = sqe(OP_RECEIVE, i);
    e->opcode = variant == RECV ? IORING_OP_RECV : IORING_OP_RECVMSG;
    e->fd = conns[i].fd;
    e->ioprio = IORING_RECV_MULTISHOT;
    e->flags = IOSQE_BUFFER_SELECT;
    if (variant != RECV) {
        e->addr = (uintptr_t)&message;
        e->len = 1;
    }
}

static void arm_stamps(int i) {
    struct io_uring_sqe *e = sqe(OP_STAMP, i);
    e->opcode = IORING_OP_URING_CMD;
    e->fd = conns[i].fd;
    e->cmd_op = SOCKET_CMD_TX_TIMESTAMP;
}

static void push_send(int i) {
    struct io_uring_sqe *e = sqe(OP_SEND, i);
    e->opcode = IORING_OP_SEND;
    e->fd = conns[i].fd;
    e->addr = (uintptr_t)request;
    e->len = request_len;
    e->msg_flags = MSG_NOSIGNAL | MSG_WAITALL;
}

static void complete(struct io_uring_cqe *c) {
    if (verify && c->user_data == UINT64_MAX) { // read in an earlier lap of the ring, and never filled anew
        stale++;
        return;
    }
    int i = (uint32_t)c->user_data;
    switch (c->user_data >> 32) {
    case OP_RECEIVE:
        if (c->flags & IORING_CQE_F_BUFFER) {
            unsigned id = c->flags >> IORING_CQE_BUFFER_SHIFT;
            const char *p = pool + (size_t)id * BUFFER_BYTES;
            // named by an earlier completion and not given back since: its bytes are another reply's as well
            bool ours = !lent[id];
            if (ours && twice++ < 10)
                fprintf(stderr, "floor: buffer %u named twice, now for stream %d\n", id, i);
            lent[id] = false;
            int n = c->res;
            if (variant != RECV && n > 0) {
                const struct io_uring_recvmsg_out *out = (const void *)p;
                look_at_stamp(p + sizeof *out, out->controllen);
                p += sizeof *out + CONTROL_BYTES;
                n = out->payloadlen;
                if (verify && (out->payloadlen == -1U || c->res != (int)(sizeof *out + CONTROL_BYTES) + n)) {
                    if (odd++ < 10)
                        fprintf(stderr, "floor: stream %d, buffer %u: result %d, but payload length %d: %s\n", i, id, c->res, n,
                                n == -1 ? "named and not written" : "written by another receive");
                    n = n == -1 ? 0 : n;
                }
            }
            uint64_t bad_before = bad_lines;
            int n_verified = n;
            if (n > 0 && take(&conns[i], p, n) && conns[i].left > 0)
                push_send(i);
            if (bad_lines > bad_before && bad_lines < 10)
                fprintf(stderr, "floor: that was buffer %u, %d bytes, result %d, flags %#x\n", id, n_verified, c->res, c->flags);
            if (!ours)
                handled[n_handled++] = id;
            if (n <= 0 && !odd)
                die("stream %d: the server closed it (%d)", i, c->res);
        } else if (c->res == -ENOBUFS) {
            enobufs++;
        } else if (c->res <= 0) {
            die("stream %d: receive ended with %d", i, c->res);
        }
        if (!(c->flags & IORING_CQE_F_MORE)) {
            rearmed++;
            arm_receive(i);
        }
        break;
    case OP_SEND:
        if (c->res != request_len)
            die("stream %d: send gave %d", i, c->res);
        break;
    case OP_STAMP:
        if (c->flags & IORING_CQE_F_MORE)
            tx_stamps++;
        else if (c->res >= 0)
            arm_stamps(i);
        else
            die("TX stamp command: %s", strerror(-c->res));
        break;
    default:
        die("buffers could not be given back: %s", strerror(-c->res));
    }
}

static void reap(void) {
    unsigned head = *cq_head, tail = __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE);
    for (; head != tail; head++)
    {
        struct io_uring_cqe *c = (struct io_uring_cqe *)(cqes + ((size_t)(head & cq_mask) << cqe_shift));
        complete(c);
        if (verify)
            c->user_data = UINT64_MAX;
    }
    __atomic_store_n(cq_head, head, __ATOMIC_RELEASE);
}

static void ring_prepare(void) {
    ring_up();
    give_back();
    enter(0, 0);
    for (int i = 0; i < streams; i++) {
        arm_receive(i);
        if (with_stamps() && !no_tx)
            arm_stamps(i);
    }
    enter(0, IORING_ENTER_GETEVENTS);
    reap();
}

static void ring_loop(double deadline) {
    for (int sent = 0; live > 0;) {
        for (int n = 0; n < SENDS_PER_ENTER && sent < streams; n++)
            push_send(sent++);
        give_back();
        // Not asked for: IORING_SQ_TASKRUN. An enter that wants one completion runs flagged work first, and the flag
        // can be stale: set by another core after the work it announces was taken. Who trusts it spins.
        enter(sent < streams ? 0 : 1, IORING_ENTER_GETEVENTS);
        woke = read_clock(CLOCK_MONOTONIC);
        wakeups++;
        reap();
        if (seconds(woke) > deadline)
            return;
    }
}

// ---- epoll ----------------------------------------------------------------------------------------------------

static int epoll_fd;

static void epoll_prepare(void) {
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < streams; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, conns[i].fd, &e) < 0)
            die("epoll_ctl: %s", strerror(errno));
    }
}

static void send_now(int i) {
    if (send(conns[i].fd, request, request_len, MSG_NOSIGNAL) != request_len)
        die("stream %d: send: %s", i, strerror(errno));
}

static void epoll_read(int i, unsigned events) {
    static char buffer[BUFFER_BYTES], control[256];
    struct iovec to = {buffer, sizeof buffer};
    struct msghdr m = {.msg_iov = &to, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (events & EPOLLERR) {
        while (recvmsg(conns[i].fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0) {
            tx_stamps++;
            m.msg_controllen = sizeof control;
        }
        m.msg_controllen = sizeof control;
    }
    if (!(events & (EPOLLIN | EPOLLHUP)))
        return;
    ssize_t n = variant == EPOLL ? read(conns[i].fd, buffer, sizeof buffer) : recvmsg(conns[i].fd, &m, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        die("stream %d: read gave %zd (%s)", i, n, strerror(errno));
    if (variant == EPOLL_STAMPS)
        look_at_stamp(control, m.msg_controllen);
    if (take(&conns[i], buffer, n) && conns[i].left > 0)
        send_now(i);
}

static void epoll_loop(double deadline) {
    static struct epoll_event ready[256];
    for (int sent = 0; live > 0;) {
        for (int n = 0; n < SENDS_PER_ENTER && sent < streams; n++)
            send_now(sent++);
        int n = epoll_wait(epoll_fd, ready, 256, sent < streams ? 0 : 50);
        woke = read_clock(CLOCK_MONOTONIC);
        wakeups++;
        for (int i = 0; i < n; i++)
            epoll_read(ready[i].data.u32, ready[i].events);
        if (seconds(woke) > deadline)
            return;
    }
}

// ---- ----------------------------------------------------------------------------------------------------------

static void arguments(int argc, char **argv) {
    if (argc < 2)
        die("usage: floor VARIANT --port P [--streams N] [--tokens K] [--rounds R] [--core C] [--limit S] [--verify] [--no-tx]");
    for (variant = 0; variant < VARIANTS && strcmp(names[variant], argv[1]); variant++)
        ;
    if (variant == VARIANTS)
        die("no variant %s", argv[1]);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--verify") == 0) {
            verify = true;
            continue;
        }
        if (strcmp(argv[i], "--no-tx") == 0) {
            no_tx = true;
            continue;
        }
        int *to = !strcmp(argv[i], "--port")      ? &port
                  : !strcmp(argv[i], "--streams") ? &streams
                  : !strcmp(argv[i], "--tokens")  ? &tokens
                  : !strcmp(argv[i], "--rounds")  ? &rounds
                  : !strcmp(argv[i], "--core")    ? &core
                  : !strcmp(argv[i], "--limit")   ? &limit_s
                                                  : NULL;
        if (!to || i + 1 == argc)
            die("what is %s?", argv[i]);
        *to = atoi(argv[++i]);
    }
    if (streams < 1 || streams > 15000 || tokens < 1 || rounds < 1 || limit_s < 1)
        die("out of range");
}

int main(int argc, char **argv) {
    arguments(argc, argv);
    if (core >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(core, &set);
        if (sched_setaffinity(0, sizeof set, &set) < 0)
            die("core %d: %s", core, strerror(errno));
    }
    prctl(PR_SET_TIMERSLACK, 1);
    char body[512];
    int body_len = snprintf(body, sizeof body,
                            "{\"model\":\"mock\",\"messages\":[{\"role\":\"user\",\"content\":\"floor one two three four "
                            "five six seven\"}],\"max_tokens\":%d,\"temperature\":0.0,\"stream\":true}",
                            tokens);
    request_len = snprintf(request, sizeof request,
                           "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept: text/event-stream\r\n"
                           "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
                           port, body_len, body);
    conns = calloc(streams, sizeof *conns);
    for (int i = 0; i < streams; i++) {
        conns[i].fd = connect_one();
        conns[i].left = rounds;
    }
    live = streams;
    bool ring = variant <= RECVMSG_PB;
    ring ? ring_prepare() : epoll_prepare();
    usleep(200000);
    reads = wakeups = rearmed = 0;
    struct rusage before, after;
    double cpu = seconds(read_clock(CLOCK_THREAD_CPUTIME_ID)), began = seconds(read_clock(CLOCK_MONOTONIC));
    getrusage(RUSAGE_THREAD, &before);
    ring ? ring_loop(began + limit_s) : epoll_loop(began + limit_s);
    getrusage(RUSAGE_THREAD, &after);
    cpu = seconds(read_clock(CLOCK_THREAD_CPUTIME_ID)) - cpu;
    double wall = seconds(read_clock(CLOCK_MONOTONIC)) - began;
    double user = after.ru_utime.tv_sec - before.ru_utime.tv_sec + (after.ru_utime.tv_usec - before.ru_utime.tv_usec) / 1e6;
    double events = (double)tokens * rounds * streams;
    printf("{\"variant\":\"%s\",\"streams\":%d,\"tokens\":%d,\"rounds\":%d,\"events\":%.0f,\"wall_s\":%.4f,"
           "\"cpu_s\":%.6f,\"user_s\":%.6f,\"us_per_event\":%.4f,\"reads\":%lu,\"bytes\":%lu,\"wakeups\":%lu,"
           "\"rx_stamps\":%lu,\"tx_stamps\":%lu,\"enobufs\":%lu,\"rearmed\":%lu,\"cq_overflow\":%u,"
           "\"involuntary_switches\":%ld,\"unfinished\":%d,\"named_twice\":%lu,\"odd_length\":%lu,\"stale_slots\":%lu,\"verified\":%s,\"good_events\":%lu,"
           "\"bad_lines\":%lu,\"latest_stamp\":%lu}\n",
           names[variant], streams, tokens, rounds, events, wall, cpu, user, cpu / events * 1e6, reads, bytes, wakeups,
           rx_stamps, tx_stamps, enobufs, rearmed, ring ? *cq_overflow : 0, after.ru_nivcsw - before.ru_nivcsw, live,
           twice, odd, stale, verify ? "true" : "false", good_events, bad_lines, latest_stamp);
    if (live > 0)
        fprintf(stderr, "floor: %d replies did not end within %d s\n", live, limit_s);
    return live > 0 ? 1 : twice || odd || stale || bad_lines ? 3 : 0;
}
