#include "process_group.h"

#if defined(_WIN32)
#include <windows.h>

/* No other process has a handle of the job, so the job closes when this process ends. */
static HANDLE job;

/* Milliseconds. A driver can delay the end of a process for any time. */
enum { END_WITHIN = 5000 };

/* Processes may break away from the job of Node.js, but not from this one. */
void keep_process_group(bool ends_with_us)
{
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {};
  if (!job) {
    HANDLE made = CreateJobObjectW(nullptr, nullptr);
    if (!made) return;
    if (AssignProcessToJobObject(made, GetCurrentProcess()))
      job = made;
    else
      (void)CloseHandle(made);
  }
  limits.BasicLimitInformation.LimitFlags = ends_with_us ? JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE : 0;
  if (!job) return;
  (void)SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
}

/* Waits for the end of the process, because until then it can start further processes. Returns
 * false if the process was gone, is not in the group or does not end. */
static bool end_one(DWORD pid)
{
  BOOL ours = FALSE;
  HANDLE process =
      OpenProcess(PROCESS_TERMINATE | PROCESS_QUERY_INFORMATION | SYNCHRONIZE, FALSE, pid);
  if (!process) return false;
  bool ended = IsProcessInJob(process, job, &ours) && ours && TerminateProcess(process, 1) &&
               WaitForSingleObject(process, END_WITHIN) == WAIT_OBJECT_0;
  (void)CloseHandle(process);
  return ended;
}

void end_process_group()
{
  alignas(JOBOBJECT_BASIC_PROCESS_ID_LIST) char room[1024];
  auto *found = reinterpret_cast<JOBOBJECT_BASIC_PROCESS_ID_LIST *>(room);
  for (bool any = job != nullptr; any;) {
    any = false;
    found->NumberOfProcessIdsInList = 0; /* if more exist, the query returns as many as fit */
    (void)QueryInformationJobObject(job, JobObjectBasicProcessIdList, found, sizeof room, nullptr);
    for (DWORD i = 0; i < found->NumberOfProcessIdsInList; i++) {
      auto pid = static_cast<DWORD>(found->ProcessIdList[i]);
      if (pid != GetCurrentProcessId() && end_one(pid)) any = true;
    }
  }
}
#else

#if defined(__linux__)
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static std::atomic<pid_t> head; /* the process that the group ends with; 0 if there is none */

/* Runs in a child before it executes another program. The kernel keeps PR_SET_PDEATHSIG across
 * execve, unless the program gains privileges (set-user-ID, capabilities), and does not pass it on
 * to the child's children. */
static void join_process_group()
{
  pid_t parent = head;
  if (parent == 0) return;
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) (void)raise(SIGKILL); /* the parent ended before prctl */
}

/* Prevents children from inheriting open files. Node.js does this when it starts, but stops at the
 * first unused descriptor above 15. Without /proc this function does nothing. */
static void close_files_on_exec()
{
  DIR *files = opendir("/proc/self/fd");
  if (!files) return;
  while (const dirent *file = readdir(files)) {
    int descriptor = static_cast<int>(strtol(file->d_name, nullptr, 10)); /* 0 for . and .. */
    if (descriptor > STDERR_FILENO) (void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  }
  (void)closedir(files);
}

/* If `ends_with_us`, the kernel kills each later child when the thread that forked it ends. */
void keep_process_group(bool ends_with_us)
{
  static bool is_registered;
  if (ends_with_us) close_files_on_exec();
  if (!is_registered) is_registered = pthread_atfork(nullptr, nullptr, join_process_group) == 0;
  head = ends_with_us ? getpid() : 0;
}

static std::atomic<pid_t> watched; /* the child of watch_child; 0 if there is none */
static std::atomic<int> ended_by;  /* the signal that ended that child; 0 if none did */
static struct sigaction reaper;    /* the event loop's action, which wakes the loop */

/* Notes the signal if one has ended the watched child. Runs in a signal handler, so it may make
 * only async-signal-safe calls. */
static void note_end(const siginfo_t *info)
{
  bool by_signal = info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED;
  if (by_signal && info->si_pid == watched) ended_by = info->si_status;
}

/* Queries the watched child, which stays for the event loop to reap. */
static void note_end_unreaped()
{
  siginfo_t info = {};
  if (waitid(P_PID, static_cast<id_t>(watched), &info, WEXITED | WNOHANG | WNOWAIT) == 0)
    note_end(&info);
}

/* Runs before the event loop reaps the child. One SIGCHLD can stand for the ends of several
 * children, and `info` describes only one of them, so the watched child is queried as well. */
static void handle_child(int number, siginfo_t *info, void *context)
{
  int saved = errno;
  note_end(info);
  note_end_unreaped();
  errno = saved;
  if (reaper.sa_flags & SA_SIGINFO)
    reaper.sa_sigaction(number, info, context);
  else if (reaper.sa_handler != SIG_DFL && reaper.sa_handler != SIG_IGN)
    reaper.sa_handler(number);
}

/* Notes the signal that ends the child, for signal_that_ended_child. The event loop sets its own
 * action whenever a child starts while it has no other child, so each call checks that our action
 * is set. */
void watch_child(int child)
{
  struct sigaction current = {};
  watched = child;
  ended_by = 0;
  if (sigaction(SIGCHLD, nullptr, &current) != 0) return;
  if (!(current.sa_flags & SA_SIGINFO) || current.sa_sigaction != handle_child) {
    reaper = current;
    current.sa_flags |= SA_SIGINFO;
    current.sa_sigaction = handle_child;
    (void)sigaction(SIGCHLD, &current, nullptr);
  }
  note_end_unreaped(); /* the child may have ended before the action was set */
}

int signal_that_ended_child()
{
  return ended_by;
}
#else
void keep_process_group(bool) {}
#endif

void end_process_group() {}
#endif

#if !defined(__linux__)
void watch_child(int) {}

int signal_that_ended_child()
{
  return 0;
}
#endif
