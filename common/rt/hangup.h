#ifndef BT_RT_HANGUP_H
#define BT_RT_HANGUP_H

/* Whether the other side of a TCP connection, which has closed its sending side, still reads. TCP says the same of one
 * that only shut its sending side down and of one that has closed the whole socket: FIN. The difference shows only when
 * something is sent, which a reset answers where nobody reads any more.
 *
 * _look asks the system (sock_diag) about a socket of this machine: one that a process still has is one that reads. It
 * knows nothing of any other. _probe turns on TCP's keepalive: a system forgets a closed socket within about a minute,
 * and then answers with a reset. None waits. */
typedef enum bt_hangup { BT_HANGUP_READS, BT_HANGUP_GONE, BT_HANGUP_UNKNOWN } bt_hangup;

bt_hangup bt_hangup_look(int fd);
void bt_hangup_probe(int fd);
#endif
