#ifndef GW_WATCH_H
#define GW_WATCH_H

/* The target of an epoll event of the HTTP server: the first member of whatever is watched. */
typedef struct gw_watch gw_watch;
struct gw_watch {
    void (*on_ready)(gw_watch *w, unsigned events); /* may end itself, but no other watched object */
};
#endif
