#ifndef BT_BASE_ERR_H
#define BT_BASE_ERR_H
/* Error codes shared by every module.
 *
 * Functions that can fail return bt_err: BT_OK is 0, every failure is negative, so `if (e < 0)` is the
 * one test. The set is small on purpose: a caller can only do a few different things (give up, retry,
 * ask the peer, tell the user). Detail for people goes into the bt_fault the caller passes; NULL means
 * "not wanted". Numbers are stable: they travel in protocol messages. */
typedef enum bt_err {
    BT_OK = 0,
    BT_EARG = -1, /* the caller broke the contract in the header, or the user gave a wrong value */
    BT_ENOMEM = -2,
    BT_EIO = -3,      /* a system or socket call failed; errno text in the fault */
    BT_EFORMAT = -4,  /* bytes from outside are not what they claim to be */
    BT_EVERSION = -5, /* well-formed, but a version or kind we do not speak */
    BT_ELIMIT = -6,   /* would exceed a configured limit */
    BT_EAGAIN = -7,   /* not now; the same call may succeed later */
    BT_EAUTH = -8,    /* not authenticated or not allowed */
    BT_ECANCEL = -9,  /* the work was cancelled by its owner */
    BT_ERANGE = -10,  /* numbers became infinite or NaN; every machine and every repetition gives this error */
} bt_err;

typedef struct bt_fault {
    char text[256];
} bt_fault;

/* A short name for people, never NULL: "out of memory". */
const char *bt_err_name(bt_err e);
/* Fill *f (if not NULL) and return e, so that failing is one statement. The words of BT_ENOMEM end with the limit of
 * addresses, where the process has one (base/memory.h); what stands before it may be cut for that. */
bt_err bt_fail(bt_fault *f, bt_err e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same for a thread that pthread_create did not start: `error` is what it returned. BT_ENOMEM where its stack has
 * no room, else BT_EIO. */
bt_err bt_fail_thread(bt_fault *f, const char *what, int error);
#ifdef __clang_analyzer__ /* the analyzer sees one file at a time: this says what bt_fail returns */
#define bt_fail(f, e, ...) ((void)(bt_fail)((f), (e), __VA_ARGS__), (e))
#endif
#endif
