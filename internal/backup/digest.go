package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
)

// A backup holds the SHA-256 of all of itself, with noDigest where it stands. It
// finds damage of the disk or of the way, in any byte. It is no seal: whoever can
// change a backup can change it too.

// noDigest is as long as a digest, occurs nowhere else, and is no digest.
var noDigest = "digest:" + strings.Repeat(".", 2*sha256.Size-len("digest:"))

// readSize is how much of a file is looked at at once.
const readSize = 1 << 20

// findOnce is where a text stands in a file, which must be once.
func findOnce(f io.ReaderAt, text string) (int64, error) {
	found := int64(-1)
	buffer := make([]byte, readSize)
	for at := int64(0); ; at += int64(len(buffer) - len(text) + 1) {
		n, err := f.ReadAt(buffer, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for part := 0; ; {
			i := bytes.Index(buffer[part:n], []byte(text))
			if i < 0 {
				break
			}
			if found >= 0 {
				return 0, errors.New("it holds its checksum twice")
			}
			found, part = at+int64(part+i), part+i+1
		}
		if err != nil {
			break
		}
	}
	if found < 0 {
		return 0, errors.New("it does not hold its checksum")
	}
	return found, nil
}

// digestOf is that of a file in which it stands, or will, at a place.
func digestOf(f io.ReaderAt, at, size int64) (string, error) {
	after := at + int64(len(noDigest))
	h := sha256.New()
	_, err := io.CopyBuffer(h, io.MultiReader(io.NewSectionReader(f, 0, at), strings.NewReader(noDigest),
		io.NewSectionReader(f, after, size-after)), make([]byte, readSize))
	return hex.EncodeToString(h.Sum(nil)), err
}

// writeDigest puts a finished backup's digest into it.
func writeDigest(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	at, err := findOnce(f, noDigest)
	if err != nil {
		return err
	}
	digest, err := digestOf(f, at, info.Size())
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(digest), at)
	return err
}

// checkDigest tells that a file is not what its digest was taken of, or nil.
func checkDigest(name, digest string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	at, err := findOnce(f, digest)
	if err != nil {
		return err
	}
	have, err := digestOf(f, at, info.Size())
	if err == nil && have != digest {
		err = errors.New("its checksum does not fit: a disk or the way here has changed it")
	}
	return err
}
