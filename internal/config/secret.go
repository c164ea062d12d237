package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// maxSecret is far more than any key, token, password or URL.
const maxSecret = 64 << 10

// An Exposed is the error of a secret that every user of the machine can read or
// replace.
type Exposed struct {
	Path string
	Mode fs.FileMode
}

func (e *Exposed) Error() string {
	return fmt.Sprintf("%s: everybody on this machine can read or change it (mode %04o)", e.Path, e.Mode)
}

// ReadSecret reads a file with a secret. One that is Exposed is refused. A group
// may read it: systemd and Kubernetes give secrets to a service that way (0440,
// owned by root).
func ReadSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return "", fmt.Errorf("%s is a directory", path)
	}
	if mode := info.Mode().Perm(); mode&0o006 != 0 {
		return "", &Exposed{path, mode}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if len(text) > maxSecret {
		return "", fmt.Errorf("%s: it is larger than 64 KiB, which no secret is", path)
	}
	return string(text), err
}

// readValue reads the value of a setting from a file: all of its text, but for
// space around it.
func readValue(path string) (string, error) {
	if path == "" {
		return "", errors.New("it names no file: name one, or leave it out")
	}
	text, err := ReadSecret(path)
	if err != nil {
		return "", err
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return text, nil
}
