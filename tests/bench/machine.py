"""What this machine says of processes: CPU time by control group, by process, of the kernel's threads. Decides nothing."""
import os
import re


class Cpu:
    """CPU time by control group: whoever was reaped or has ended counts too."""

    def __init__(self, name):
        mounts = [line.split() for line in open('/proc/mounts')]
        v1 = [m[1] for m in mounts if m[2] == 'cgroup' and 'cpuacct' in m[3].split(',')]
        v2 = [m[1] for m in mounts if m[2] == 'cgroup2']
        self.v1, self.top = bool(v1), (v1 or v2 or [None])[0]
        self.others = []
        self.folder = None
        try:
            self.folder = os.path.join(self.top, f'axbench-{os.getpid()}-{name}')
            os.makedirs(self.folder, exist_ok=True)
            self.ms()
        except (OSError, TypeError):
            self.folder = None

    def enter(self):
        if self.folder:
            with open(os.path.join(self.folder, 'cgroup.procs'), 'w') as file:
                file.write('0')

    def also(self, folder):
        """A group of ax's own in the unified tree, where jobs leave ours."""
        if not self.v1:
            self.others.append(folder)

    def ms(self):
        if not self.folder:
            return float('nan')
        if self.v1:
            return int(open(os.path.join(self.folder, 'cpuacct.usage')).read()) / 1e6
        texts = [open(os.path.join(f, 'cpu.stat')).read() for f in [self.folder] + self.others]
        return sum(int(re.search(r'usage_usec (\d+)', t).group(1)) for t in texts) / 1e3

    def remove(self):
        try:
            os.rmdir(self.folder)
        except (OSError, TypeError):
            pass


def processes(which):
    """The numbers of the processes with such a command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            if which(open(f'/proc/{pid}/cmdline').read()):
                found.append(int(pid))
        except (OSError, UnicodeDecodeError):
            pass
    return found


def ticks(pid):
    """Milliseconds of CPU of all threads, to the nanosecond where the kernel counts so."""
    total = 0
    for task in os.listdir(f'/proc/{pid}/task'):
        total += int(open(f'/proc/{pid}/task/{task}/schedstat').read().split()[0])
    return total / 1e6


def kernel_threads():
    """CPU milliseconds of the kernel's threads."""
    total = 0
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            if not os.readlink(f'/proc/{pid}/exe'):
                continue
        except FileNotFoundError:
            try:
                total += int(open(f'/proc/{pid}/schedstat').read().split()[0])
            except (OSError, IndexError):
                pass
        except OSError:
            pass
    return total / 1e6


def machine():
    model = re.search(r'model name\s*:\s*(.*)', open('/proc/cpuinfo').read())
    return dict(cpus=os.cpu_count(), kernel=os.uname().release, load=os.getloadavg()[0],
                memory_gib=round(os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30),
                cpu=model.group(1) if model else '?')
