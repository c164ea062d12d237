// Command page writes docs/reference/cli.md, or manual pages, from the help of the
// commands.
//
//	page
//	page -man DIRECTORY -version VERSION
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/mintage/mintage/internal/cli"
)

const file = "docs/reference/cli.md"

func main() {
	man := flag.String("man", "", "write manual pages into this directory instead")
	version := flag.String("version", "", "version in the manual pages")
	flag.Parse()
	root := cli.Root(*version)
	var err error
	if *man != "" {
		err = writeMan(root, *man)
	} else {
		err = os.WriteFile(file, []byte(referencePage(root)), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
