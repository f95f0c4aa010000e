package grantd

import (
	"bytes"
	"net"
	"syscall"
	"time"
	"unsafe"
)

const (
	firstBuffer = 4096
	// How long a caller reads by itself: a cached token takes microseconds. The runtime's poller takes longer to wake a
	// goroutine up than the broker to answer.
	briefly = 2 * time.Millisecond
)

// input is what a connection has sent, as lines. For one goroutine at a time.
type input struct {
	connection *net.UnixConn
	raw        syscall.RawConn
	bytes      []byte
	// Where the next line begins, and how much of it has no newline.
	start, scanned int
	// The result of the last brief read.
	count   int
	failure error
	attempt func(uintptr) bool
}

func newInput(connection *net.UnixConn) (*input, error) {
	raw, err := connection.SyscallConn()
	if err != nil {
		return nil, err
	}
	i := &input{connection: connection, raw: raw, bytes: make([]byte, 0, firstBuffer)}
	i.attempt = i.receive
	return i, nil
}

// next is the next whole line, without its newline. It is valid until more is read.
func (i *input) next() ([]byte, bool) {
	end := bytes.IndexByte(i.bytes[i.scanned:], '\n')
	if end < 0 {
		i.scanned = len(i.bytes)
		return nil, false
	}
	line := i.bytes[i.start : i.scanned+end]
	i.start = i.scanned + end + 1
	i.scanned = i.start
	return line, true
}

func (i *input) isTooLong() bool { return len(i.bytes)-i.start > longestLine }

// free is room for more bytes.
func (i *input) free() []byte {
	if i.start > 0 {
		i.bytes = i.bytes[:copy(i.bytes, i.bytes[i.start:])]
		i.scanned -= i.start
		i.start = 0
	}
	if len(i.bytes) == cap(i.bytes) {
		i.bytes = append(make([]byte, 0, 2*cap(i.bytes)), i.bytes...)
	}
	return i.bytes[len(i.bytes):cap(i.bytes)]
}

// read waits for more bytes.
func (i *input) read() error {
	count, err := i.connection.Read(i.free())
	i.bytes = i.bytes[:len(i.bytes)+count]
	return err
}

// readBriefly waits for more bytes in the calling thread, at most `briefly`. False: none have come.
func (i *input) readBriefly() (bool, error) {
	i.count, i.failure = 0, nil
	if err := i.raw.Read(i.attempt); err != nil {
		return false, err
	}
	switch {
	case i.failure == syscall.EAGAIN || i.failure == syscall.EINTR:
		return false, nil
	case i.failure != nil || i.count <= 0:
		return false, disconnected()
	}
	i.bytes = i.bytes[:len(i.bytes)+i.count]
	return true, nil
}

func (i *input) receive(descriptor uintptr) bool {
	waitInput(descriptor)
	i.count, i.failure = syscall.Read(int(descriptor), i.free())
	return true
}

// waitInput is ppoll(2), which the package syscall has no function for.
func waitInput(descriptor uintptr) {
	wanted := struct {
		descriptor   int32
		events, seen int16
	}{int32(descriptor), pollIn, 0}
	limit := syscall.NsecToTimespec(int64(briefly))
	// An error is that of the read that follows.
	syscall.Syscall6(
		syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&wanted)), 1, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
}

const pollIn = 1
