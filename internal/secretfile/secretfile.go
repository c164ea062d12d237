// Package secretfile checks who can read or change a file of the server, and advises how
// to exclude everybody else. After the advised command, the server can still read the file.
package secretfile

import (
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/mintage/mintage/internal/show"
)

// A User is the user that the server runs as, by numeric ids.
type User struct {
	users  []int // this process's, or the data directory's owner; empty if neither is known
	own    []int // groups that are its own, the primary one first
	member []int // other groups that it is in
}

// UserOf returns the user that the server on a data directory runs as: the directory's
// owner, even if another user runs this process. If there is no directory, or root owns it,
// UserOf returns the user of this process, unless that is root. data may be "".
func UserOf(data string) (s User) {
	return userOf(os.Geteuid(), data)
}

func userOf(process int, data string) (s User) {
	info, err := os.Stat(data)
	uid, gid := -1, -1
	if err == nil {
		uid, gid = ownerOf(info)
	}
	if process != 0 && (err != nil || uid == 0 || uid == process) {
		s.users, s.own = []int{process}, []int{os.Getegid()}
		s.member, _ = os.Getgroups()
	}
	if err != nil {
		return s
	}
	if s.users == nil {
		s.users = []int{uid}
	}
	u, err := user.LookupId(strconv.Itoa(uid))
	if err == nil {
		if primary, err := strconv.Atoi(u.Gid); err == nil {
			s.own = append(s.own, primary)
		}
		names, _ := u.GroupIds()
		for _, name := range names {
			if n, err := strconv.Atoi(name); err == nil {
				s.member = append(s.member, n)
			}
		}
	}
	// Kubernetes gives a volume, and the secrets beside it, to a group (fsGroup).
	s.own = append(s.own, gid)
	return s
}

// Other returns the name of the server's user if this process runs as another user who is
// not root: that user may lack the server's access to files. Otherwise it returns "".
func (s User) Other() string { return s.otherThan(os.Geteuid()) }

func (s User) otherThan(process int) string {
	if process == 0 || len(s.users) == 0 || s.users[0] == process {
		return ""
	}
	return userName(s.users[0])
}

func ownerOf(info fs.FileInfo) (uid, gid int) {
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(owner.Uid), int(owner.Gid)
	}
	return -1, -1
}

// An Exposure describes who else can read or change a file, and how to prevent that.
type Exposure struct {
	Everybody bool // or else a group
	Mode      fs.FileMode
	Advice    string // a command
}

// Exposure returns nil for a file that only the server can read and change. The
// server's own group may read it. With anyGroup, any other group may do so, too.
func (s User) Exposure(path string, anyGroup bool) (*Exposure, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	mode := info.Mode().Perm()
	_, gid := ownerOf(info)
	ours := anyGroup || slices.Contains(s.own, gid)
	var change []string
	e := &Exposure{Everybody: mode&0o006 != 0, Mode: mode}
	switch {
	case mode&0o060 != 0 && !ours:
		change = append(change, "g=")
	case mode&0o020 != 0:
		change = append(change, "g-w")
	}
	if e.Everybody {
		change = append(change, "o=")
	}
	if change == nil {
		return nil, nil
	}
	e.Advice = s.Close(path, strings.Join(change, ","))
	return e, nil
}

// Close returns the command that makes a change of a file's or a directory's mode,
// such as "g=,o=". If the server would lose access by the change, the command also gives
// the server's user or group access.
func (s User) Close(path, change string) string {
	quoted := show.Quote(path)
	info, err := os.Stat(path)
	if err != nil {
		return "chmod " + change + " " + quoted
	}
	uid, gid := ownerOf(info)
	inGroup := slices.Contains(s.own, gid) || slices.Contains(s.member, gid)
	switch {
	case info.Mode()&fs.ModeSticky != 0: // others use it, too, such as /tmp
		return "chmod " + change + " " + quoted
	case len(s.users) == 0:
		return "chmod " + change + " " + quoted + ", and let the server's user own it or be in its group"
	case s.users[0] == 0, s.users[0] == uid, !info.IsDir() && inGroup && info.Mode()&0o040 != 0 && !strings.Contains(change, "g="):
		return "chmod " + change + " " + quoted
	case info.IsDir():
		return "chown " + userName(s.users[0]) + " " + quoted + " && chmod 700 " + quoted
	}
	return "chgrp " + groupName(s.own[0]) + " " + quoted + " && chmod 640 " + quoted
}

func userName(id int) string {
	if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return u.Username
	}
	return strconv.Itoa(id)
}

func groupName(id int) string {
	if g, err := user.LookupGroupId(strconv.Itoa(id)); err == nil {
		return g.Name
	}
	return strconv.Itoa(id)
}
