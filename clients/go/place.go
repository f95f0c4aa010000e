package grantd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	systemPath  = "/run/grantd/grantd.sock"
	startSystem = "sudo systemctl start grantd.socket"
	startUser   = "systemctl --user start grantd.socket"
	// How long the broker's queue of new connections may be full.
	connectLimit = 10 * time.Second
	connectPause = 10 * time.Millisecond
	// Bits of a folder's mode that let others write.
	othersWrite = 0o022
)

// place is a socket's path, whether the caller named it, and the commands that start a broker there.
type place struct {
	path, starts string
	isNamed      bool
}

func choose(named string) place {
	folder := os.Getenv("XDG_RUNTIME_DIR")
	if !strings.HasPrefix(folder, "/") {
		folder = fmt.Sprintf("/run/user/%d", os.Getuid())
	}
	user := folder + "/grantd/grantd.sock"
	if named == "" {
		named = os.Getenv("GRANTD_SOCKET")
	}
	chosen := place{path: named, isNamed: named != "", starts: startUser + "` or `" + startSystem}
	if !chosen.isNamed {
		chosen.path = systemPath
		if _, err := os.Stat(user); err == nil {
			chosen.path = user
		}
	}
	if chosen.path == user {
		chosen.starts = startUser
	} else if chosen.isNamed && chosen.path == systemPath {
		chosen.starts = startSystem
	}
	return chosen
}

// connect returns a connection whose server was checked.
func (p place) connect(ctx context.Context) (*net.UnixConn, error) {
	end := time.Now().Add(connectLimit)
	for {
		connection, err := (&net.Dialer{Deadline: end}).DialContext(ctx, "unix", p.path)
		if err == nil {
			made := connection.(*net.UnixConn)
			if err := p.check(made); err != nil {
				made.Close()
				return nil, err
			}
			return made, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !errors.Is(err, syscall.EAGAIN) || time.Now().After(end) {
			return nil, p.failure(err)
		}
		time.Sleep(connectPause)
	}
}

func (p place) failure(err error) error {
	switch {
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return &Error{
			Reason: ReasonNotPermitted, Message: "this user has no access to " + p.path,
			Hint: "An administrator can allow it with `group` in [socket] of the configuration."}
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{Reason: ReasonTimedOut, Message: "the broker at " + p.path + " accepts no connection", Hint: "Try again."}
	}
	return &Error{
		Reason: ReasonNotRunning, Message: "no broker listens at " + p.path, Hint: "Start it with `" + p.starts + "`."}
}

// check refuses a server of another user, unless the caller named its socket.
func (p place) check(connection *net.UnixConn) error {
	if p.isNamed {
		return nil
	}
	raw, err := connection.SyscallConn()
	if err != nil {
		return disconnected()
	}
	var server *syscall.Ucred
	var failed error
	err = raw.Control(func(descriptor uintptr) {
		server, failed = syscall.GetsockoptUcred(int(descriptor), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil || failed != nil {
		return disconnected()
	}
	if server.Uid == 0 || int(server.Uid) == os.Geteuid() || int64(server.Uid) == folderOwner(p.path) {
		return nil
	}
	return &Error{
		Reason:  ReasonForeignServer,
		Message: fmt.Sprintf("the server at %s belongs to another user (uid %d)", p.path, server.Uid),
		Hint:    "If that is intended, name the socket in GRANTD_SOCKET."}
}

// folderOwner is the owner of the socket's folder; -1 if others can write to the folder, or others than root can replace it.
func folderOwner(path string) int64 {
	var own, above syscall.Stat_t
	folder := filepath.Dir(path)
	if syscall.Lstat(folder, &own) != nil || syscall.Lstat(filepath.Dir(folder), &above) != nil {
		return -1
	}
	if own.Mode&syscall.S_IFMT != syscall.S_IFDIR || above.Uid != 0 || (own.Mode|above.Mode)&othersWrite != 0 {
		return -1
	}
	return int64(own.Uid)
}
