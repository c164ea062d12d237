package backup_test

import (
	"github.com/mintage/mintage/internal/backup"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

var (
	create     = testkit.Create
	raw        = testkit.Raw
	newKEK     = testkit.KEK
	run        = testkit.Exec
	makeBackup = testkit.MakeBackup
	openBackup = testkit.OpenBackup
	onlyFiles  = testkit.OnlyFiles
	addKey     = testkit.AddKey
	put        = testkit.PutGrants
	newGrant   = storetest.Everyday
	rotated    = storetest.Refreshed
)

const base grant.Instant = 1_700_000_000_000

func ignore(backup.CopyProgress) {}
