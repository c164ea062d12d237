package secretfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Ids of a user and a group that this machine does not have.
const stranger, strangers = 4_000_000_001, 4_000_000_002

// A file may be readable only by the server, and the advice never locks the server out.
func TestTheServersOwnGroupMayReadAndNoAdviceLocksItOut(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kek")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := ownerOf(info)
	owner := User{users: []int{uid}, own: []int{gid}}
	group := User{users: []int{stranger}, own: []int{strangers, gid}} // as for root:mintage
	member := User{users: []int{stranger}, own: []int{strangers}, member: []int{gid}}
	other := User{users: []int{stranger}, own: []int{strangers}}
	lone := User{users: []int{uid}, own: []int{strangers}}
	if uid == 0 {
		lone.users = []int{0}
	}
	give := "chgrp 4000000002 PATH && chmod 640 PATH"
	for _, c := range []struct {
		name      string
		user      User
		mode      fs.FileMode
		anyGroup  bool
		everybody bool
		advice    string // "" if nothing is wrong
	}{
		{"its own, 0600", owner, 0o600, false, false, ""},
		{"its own group, 0640", group, 0o640, false, false, ""},
		{"its own group, 0440", group, 0o440, false, false, ""},
		{"its own group may write", group, 0o660, false, false, "chmod g-w PATH"},
		{"everybody, its own group", group, 0o644, false, true, "chmod o= PATH"},
		{"everybody, and it is not in the group", other, 0o644, false, true, give},
		{"everybody, and the group cannot read", group, 0o604, false, true, give},
		{"another group reads what it owns", lone, 0o640, false, false, "chmod g= PATH"},
		{"another group that it needs to read", member, 0o640, false, false, give},
		{"another group that may read", member, 0o640, true, false, ""},
		{"another group that may write", member, 0o660, true, false, "chmod g-w PATH"},
		{"everybody, another group that may write", member, 0o666, true, true, "chmod g-w,o= PATH"},
		{"unknown", User{}, 0o644, true, true, "chmod o= PATH, and let the server's user own it or be in its group"},
	} {
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		e, err := c.user.Exposure(path, c.anyGroup)
		switch want := strings.ReplaceAll(c.advice, "PATH", path); {
		case err != nil:
			t.Error(err)
		case e == nil && want != "" || e != nil && (want == "" || e.Advice != want || e.Everybody != c.everybody || e.Mode != c.mode):
			t.Errorf("%s: %+v, want %q", c.name, e, want)
		}
	}
	if _, err := owner.Exposure(path+".absent", false); err == nil {
		t.Error("an absent file is not exposed")
	}
	if got := other.Close(dir, "go="); got != "chown 4000000001 "+dir+" && chmod 700 "+dir {
		t.Errorf("a directory of another user: %s", got)
	}
	if got := owner.Close(dir, "go="); got != "chmod go= "+dir {
		t.Errorf("its own directory: %s", got)
	}
}

func TestTheServerIsTheOwnerOfItsDataDirectory(t *testing.T) {
	dir := t.TempDir()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := ownerOf(info)
	if s := UserOf(dir); !slices.Contains(s.users, uid) || !slices.Contains(s.own, gid) {
		t.Errorf("%+v, want user %d and group %d", s, uid, gid)
	}
	if s := UserOf(""); os.Geteuid() == 0 && len(s.users) != 0 {
		t.Errorf("root runs the server by default: %+v", s)
	}
}

// A process of another user that inspects the server's directory is not the server.
func TestAnotherUsersProcessIsNotTheServer(t *testing.T) {
	dir := t.TempDir()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := ownerOf(info)
	if uid == 0 {
		uid = 4_000_000_003
		if err := os.Chown(dir, uid, -1); err != nil {
			t.Fatal(err)
		}
	}
	if got := userOf(stranger, dir).Close(dir, "go="); got != "chmod go= "+dir {
		t.Errorf("the advice takes the directory from its owner: %s", got)
	}
	for process, want := range map[int]string{stranger: userName(uid), uid: "", 0: ""} {
		if got := userOf(process, dir).otherThan(process); got != want {
			t.Errorf("for the user %d, the server's is the other user %q, want %q", process, got, want)
		}
	}
	if s := userOf(stranger, filepath.Join(dir, "absent")); !slices.Equal(s.users, []int{stranger}) {
		t.Errorf("without a directory, the server is this process: %+v", s)
	}
	if err := os.Chmod(dir, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if got := (User{users: []int{stranger}, own: []int{strangers}}).Close(dir, "go-w"); strings.Contains(got, "chown") {
		t.Errorf("the advice takes a directory that others use: %s", got)
	}
}
