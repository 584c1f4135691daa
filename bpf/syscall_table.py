"""System calls by class, and their numbers. Facts of the kernel's ABI, which never change once given."""

from typing import Final

# In the order of their class numbers; 0 is everything that is not listed.
OPS: Final = (
    "other",
    "read",
    "write",
    "poll",
    "lock",
    "time",
    "sleep",
    "socket",
    "yield",
    "filesystem",
    "memory",
    "process",
    "query",
    "ipc",
    "timer",
    "event",
    "sync",
)

NAMES: Final = {
    "read": "pread64 preadv preadv2 read readv recvfrom recvmmsg recvmsg",
    "write": "pwrite64 pwritev pwritev2 sendmmsg sendmsg sendto write writev",
    "poll": (
        "epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait "
        "epoll_wait_old poll ppoll ppoll_time64 pselect6 pselect6_time64 select"
    ),
    "lock": "futex",
    "time": "adjtimex clock_adjtime clock_getres clock_gettime clock_settime gettimeofday settimeofday time",
    "sleep": "clock_nanosleep nanosleep",
    "socket": (
        "accept accept4 bind connect getpeername getsockname getsockopt listen setsockopt shutdown socket "
        "socketpair"
    ),
    "yield": "sched_yield",
    "filesystem": (
        "open openat close creat lseek truncate ftruncate rename renameat link symlink unlink readlink "
        "stat fstat lstat statx access faccessat chmod fchmod chown fchown lchown utime utimes utimensat "
        "mkdir rmdir chdir fchdir getcwd getdents getdents64 readdir"
    ),
    "memory": "mmap munmap mprotect mremap madvise mincore mlock munlock mlockall munlockall brk sbrk",
    "process": (
        "clone fork vfork execve execveat exit exit_group wait4 waitid waitpid kill tkill tgkill ptrace "
        "prctl setpgid getpgid setpriority getpriority sched_setaffinity sched_getaffinity "
        "sched_setscheduler sched_getscheduler sched_setparam sched_getparam"
    ),
    "query": (
        "getrusage getrlimit setrlimit prlimit64 times getpid getppid getuid geteuid getgid getegid "
        "gettid uname sysinfo getcpu"
    ),
    "ipc": (
        "pipe pipe2 msgget msgsnd msgrcv msgctl semget semop semctl shmget shmat shmdt shmctl mq_open "
        "mq_close mq_unlink mq_send mq_receive mq_getsetattr mq_notify mq_timedreceive mq_timedsend"
    ),
    "timer": (
        "alarm getitimer setitimer timer_create timer_delete timer_getoverrun timer_gettime timer_settime "
        "timerfd_create timerfd_gettime timerfd_settime"
    ),
    "event": (
        "eventfd eventfd2 signalfd signalfd4 inotify_init inotify_init1 inotify_add_watch "
        "inotify_rm_watch fanotify_init fanotify_mark io_setup io_destroy io_submit io_cancel "
        "io_getevents io_uring_setup io_uring_enter io_uring_register"
    ),
    "sync": "fsync fdatasync sync syncfs msync",
}

# Calls that do not come back, so there is nothing to time.
NEVER_RETURN: Final = ("exit", "exit_group")

# `name=number` pairs of the names above that the architecture has.
_NUMBERS: Final = {
    "x86_64": (
        "read=0 write=1 open=2 close=3 stat=4 fstat=5 lstat=6 poll=7 lseek=8 mmap=9 mprotect=10 munmap=11 "
        "brk=12 pread64=17 pwrite64=18 readv=19 writev=20 access=21 pipe=22 select=23 sched_yield=24 "
        "mremap=25 msync=26 mincore=27 madvise=28 shmget=29 shmat=30 shmctl=31 nanosleep=35 getitimer=36 "
        "alarm=37 setitimer=38 getpid=39 socket=41 connect=42 accept=43 sendto=44 recvfrom=45 sendmsg=46 "
        "recvmsg=47 shutdown=48 bind=49 listen=50 getsockname=51 getpeername=52 socketpair=53 "
        "setsockopt=54 getsockopt=55 clone=56 fork=57 vfork=58 execve=59 exit=60 wait4=61 kill=62 "
        "uname=63 semget=64 semop=65 semctl=66 shmdt=67 msgget=68 msgsnd=69 msgrcv=70 msgctl=71 fsync=74 "
        "fdatasync=75 truncate=76 ftruncate=77 getdents=78 getcwd=79 chdir=80 fchdir=81 rename=82 "
        "mkdir=83 rmdir=84 creat=85 link=86 unlink=87 symlink=88 readlink=89 chmod=90 fchmod=91 chown=92 "
        "fchown=93 lchown=94 gettimeofday=96 getrlimit=97 getrusage=98 sysinfo=99 times=100 ptrace=101 "
        "getuid=102 getgid=104 geteuid=107 getegid=108 setpgid=109 getppid=110 getpgid=121 utime=132 "
        "getpriority=140 setpriority=141 sched_setparam=142 sched_getparam=143 sched_setscheduler=144 "
        "sched_getscheduler=145 mlock=149 munlock=150 mlockall=151 munlockall=152 prctl=157 adjtimex=159 "
        "setrlimit=160 sync=162 settimeofday=164 gettid=186 tkill=200 time=201 futex=202 "
        "sched_setaffinity=203 sched_getaffinity=204 io_setup=206 io_destroy=207 io_getevents=208 "
        "io_submit=209 io_cancel=210 epoll_create=213 epoll_ctl_old=214 epoll_wait_old=215 getdents64=217 "
        "timer_create=222 timer_settime=223 timer_gettime=224 timer_getoverrun=225 timer_delete=226 "
        "clock_settime=227 clock_gettime=228 clock_getres=229 clock_nanosleep=230 exit_group=231 "
        "epoll_wait=232 epoll_ctl=233 tgkill=234 utimes=235 mq_open=240 mq_unlink=241 mq_timedsend=242 "
        "mq_timedreceive=243 mq_notify=244 mq_getsetattr=245 waitid=247 inotify_init=253 "
        "inotify_add_watch=254 inotify_rm_watch=255 openat=257 renameat=264 faccessat=269 pselect6=270 "
        "ppoll=271 utimensat=280 epoll_pwait=281 signalfd=282 timerfd_create=283 eventfd=284 "
        "timerfd_settime=286 timerfd_gettime=287 accept4=288 signalfd4=289 eventfd2=290 epoll_create1=291 "
        "pipe2=293 inotify_init1=294 preadv=295 pwritev=296 recvmmsg=299 fanotify_init=300 "
        "fanotify_mark=301 prlimit64=302 clock_adjtime=305 syncfs=306 sendmmsg=307 getcpu=309 "
        "execveat=322 preadv2=327 pwritev2=328 statx=332 io_uring_setup=425 io_uring_enter=426 "
        "io_uring_register=427 epoll_pwait2=441"
    ),
    "aarch64": (
        "io_setup=0 io_destroy=1 io_submit=2 io_cancel=3 io_getevents=4 getcwd=17 eventfd2=19 "
        "epoll_create1=20 epoll_ctl=21 epoll_pwait=22 inotify_init1=26 inotify_add_watch=27 "
        "inotify_rm_watch=28 renameat=38 truncate=45 ftruncate=46 faccessat=48 chdir=49 fchdir=50 "
        "fchmod=52 fchown=55 openat=56 close=57 pipe2=59 getdents64=61 lseek=62 read=63 write=64 readv=65 "
        "writev=66 pread64=67 pwrite64=68 preadv=69 pwritev=70 pselect6=72 ppoll=73 signalfd4=74 fstat=80 "
        "sync=81 fsync=82 fdatasync=83 timerfd_create=85 timerfd_settime=86 timerfd_gettime=87 "
        "utimensat=88 exit=93 exit_group=94 waitid=95 futex=98 nanosleep=101 getitimer=102 setitimer=103 "
        "timer_create=107 timer_gettime=108 timer_getoverrun=109 timer_settime=110 timer_delete=111 "
        "clock_settime=112 clock_gettime=113 clock_getres=114 clock_nanosleep=115 ptrace=117 "
        "sched_setparam=118 sched_setscheduler=119 sched_getscheduler=120 sched_getparam=121 "
        "sched_setaffinity=122 sched_getaffinity=123 sched_yield=124 kill=129 tkill=130 tgkill=131 "
        "setpriority=140 getpriority=141 times=153 setpgid=154 getpgid=155 uname=160 getrlimit=163 "
        "setrlimit=164 getrusage=165 prctl=167 getcpu=168 gettimeofday=169 settimeofday=170 adjtimex=171 "
        "getpid=172 getppid=173 getuid=174 geteuid=175 getgid=176 getegid=177 gettid=178 sysinfo=179 "
        "mq_open=180 mq_unlink=181 mq_timedsend=182 mq_timedreceive=183 mq_notify=184 mq_getsetattr=185 "
        "msgget=186 msgctl=187 msgrcv=188 msgsnd=189 semget=190 semctl=191 semop=193 shmget=194 "
        "shmctl=195 shmat=196 shmdt=197 socket=198 socketpair=199 bind=200 listen=201 accept=202 "
        "connect=203 getsockname=204 getpeername=205 sendto=206 recvfrom=207 setsockopt=208 "
        "getsockopt=209 shutdown=210 sendmsg=211 recvmsg=212 brk=214 munmap=215 mremap=216 clone=220 "
        "execve=221 mmap=222 mprotect=226 msync=227 mlock=228 munlock=229 mlockall=230 munlockall=231 "
        "mincore=232 madvise=233 accept4=242 recvmmsg=243 wait4=260 prlimit64=261 fanotify_init=262 "
        "fanotify_mark=263 clock_adjtime=266 syncfs=267 sendmmsg=269 execveat=281 preadv2=286 "
        "pwritev2=287 statx=291 io_uring_setup=425 io_uring_enter=426 io_uring_register=427 "
        "epoll_pwait2=441"
    ),
}


def numbers(machine: str) -> dict[str, int]:
    """Call numbers by name, of those calls that have a class; empty for an architecture we do not know."""
    pairs = (pair.split("=") for pair in _NUMBERS.get(machine, "").split())
    return {name: int(number) for name, number in pairs}
