package migrations

import (
	"fmt"
	"regexp"
	"strconv"
)

// A program may meet a database that a newer one has migrated: during an upgrade both run side by side, and
// an old executor that is restarted must be able to start. Only the author of the newest migration knows
// whether it can. A line `-- needs: N` in a migration declares that programs which know version N or a later
// one can work with the resulting schema. Every migration from 00012 on has such a line, and schema_version
// stores its number.

// Skew is the error of a program that can't work with a database because its schema is newer.
type Skew struct {
	// Database is the version of the database, Known the latest one that this program knows.
	Database, Known int64
	// Needs is the version that a program must know; 0 if the database does not record one.
	Needs int64
}

// Error names the program that is needed, and what to do.
func (s *Skew) Error() string {
	needs, start := "does not say which older programs can work with it", s.Database
	if s.Needs > 0 {
		needs, start = fmt.Sprintf("needs a program that knows version %d", s.Needs), s.Needs
	}
	return fmt.Sprintf("the database's schema is at version %d and %s, and this program knows %d: start a release that knows version %d, "+
		"or take the newer migrations back with the release that brought them: executor migrate down --to %d",
		s.Database, needs, s.Known, start, s.Known)
}

// SelectVersions reads schema_version for a program that knows version $1. It selects the latest applied
// version that the program knows, the latest applied of all, the greatest version that an unknown one needs,
// and whether each unknown one records what it needs. Before 00012 the table had no such column.
const SelectVersions = `
select coalesce(max(v.version) filter (where v.version <= $1::bigint), 0), coalesce(max(v.version), 0),
       coalesce(max((to_jsonb(v) ->> 'needs')::bigint) filter (where v.version > $1::bigint), 0),
       coalesce(bool_and(to_jsonb(v) ->> 'needs' is not null) filter (where v.version > $1::bigint), true)
  from schema_version v`

// Fits returns nil, or a *Skew, for a program that knows a version: applied, needs and said are the values
// that SelectVersions reads.
func Fits(known, applied, needs int64, said bool) error {
	switch {
	case applied <= known || said && needs <= known:
		return nil
	case !said:
		needs = 0
	}
	return &Skew{Database: applied, Known: known, Needs: needs}
}

var needsLine = regexp.MustCompile(`(?m)^-- needs: (\d+)$`)

// firstWithNeeds is the first migration that must have a `-- needs: N` line, the oldest program version that
// can work with the resulting schema.
const firstWithNeeds = 12

// neededVersion returns the number in a migration's needs line. Migrations before firstWithNeeds have none,
// which is null in the database.
func (m migration) neededVersion() (version *int64, err error) {
	found := needsLine.FindStringSubmatch(m.up)
	if found == nil {
		if m.version < firstWithNeeds {
			return nil, nil
		}
		return nil, fmt.Errorf("migrations: %s does not say which programs can work with the schema after it: add a line `-- needs: N` "+
			"below the heading, where N is the oldest version that such a program has to know", m.name)
	}
	n, err := strconv.ParseInt(found[1], 10, 64)
	if err == nil && (n < 1 || n > m.version) {
		err = fmt.Errorf("must be from 1 to %d", m.version)
	}
	if err != nil {
		return nil, fmt.Errorf("migrations: %s: needs: %s: %w", m.name, found[1], err)
	}
	return &n, nil
}
