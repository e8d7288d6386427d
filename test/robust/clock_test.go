package robust

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// shifted is what a process runs instead of the vDSO's clock_gettime: it asks the kernel, and adds seconds to what it says of the time of day.
// The seconds stand at shiftedBy. The monotonic clock stays as it is, as it does when a computer's clock is set.
var shifted = []byte{
	0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, 228 (clock_gettime)
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
	0x75, 0x0d, // jne to the last instruction
	0x48, 0xb9, 0, 0, 0, 0, 0, 0, 0, 0, // mov rcx, seconds
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3, // ret
}

const shiftedBy = 13

// setClock sets the clock of one process ahead by so much, or back, and of no other. A Go program takes the time from the page of code that
// the kernel gives every process for that, so that page is changed.
func (w *world) setClock(pid int, ahead time.Duration) {
	w.t.Helper()
	code := bytes.Clone(shifted)
	binary.LittleEndian.PutUint64(code[shiftedBy:], uint64(ahead/time.Second))
	w.must(syscall.Kill(pid, syscall.SIGSTOP))
	defer func() { w.must(syscall.Kill(pid, syscall.SIGCONT)) }()
	for range 100 {
		at, busy, err := clockCode(pid)
		w.must(err)
		if !busy {
			memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_WRONLY, 0)
			w.must(err)
			defer memory.Close()
			_, err = memory.WriteAt(code, int64(at))
			w.must(err)
			return
		}
		w.must(syscall.Kill(pid, syscall.SIGCONT))
		w.pause(time.Millisecond)
		w.must(syscall.Kill(pid, syscall.SIGSTOP))
	}
	w.t.Fatal("there is always a thread that asks for the time")
}

// clockCode is where a process has its clock_gettime, and whether a thread of it, which has been stopped, stands in the part that is changed.
func clockCode(pid int) (at uint64, busy bool, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, false, err
	}
	var from, to uint64
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "[vdso]") {
			if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
				return 0, false, err
			}
		}
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return 0, false, err
	}
	defer memory.Close()
	image := make([]byte, to-from)
	if _, err := memory.ReadAt(image, int64(from)); err != nil {
		return 0, false, err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, false, err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, false, err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			at = from + s.Value
		}
	}
	if at == 0 {
		return 0, false, fmt.Errorf("process %d has no clock_gettime of the kernel's", pid)
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		fields := strings.Fields(string(text))
		if err != nil || len(fields) < 2 { // it has ended, or has not stopped yet
			busy = busy || err == nil
			continue
		}
		stands, err := strconv.ParseUint(fields[len(fields)-1], 0, 64)
		busy = busy || err != nil || stands >= at && stands < at+uint64(len(shifted))
	}
	return at, busy, err
}

// clocks says whether clocks can be set here: the code is that of one kind of computer.
const clocks = runtime.GOOS == "linux" && runtime.GOARCH == "amd64"
