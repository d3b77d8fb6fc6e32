package groups

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/wire"
)

// list answers what an owner holds, in order of paths.
func (s *steps) list() (res wire.Result, err *wire.Error) {
	after, err := decodeListCursor(s.req.Cursor)
	if err != nil {
		return res, err
	}
	if err := s.caughtUpIn(); err != nil {
		return res, err
	}
	results, err := s.askWhere(askList, s.req.Owner, s.names())
	res.List = new(wire.List)
	for i := range results {
		res.Flag = res.Flag || results[i].Flag
		res.List.Infos = append(res.List.Infos, results[i].List.Infos...)
	}
	slices.SortFunc(res.List.Infos, byPath)
	s.pageOf(&res, after)
	return res, err
}

func byPath(a, b wire.LockInfo) int {
	if c := strings.Compare(a.Path, b.Path); c != 0 {
		return c
	}
	return int(a.Mode) - int(b.Mode)
}

// pageOf leaves of an owner's locks those of the page that was asked for; all of them when
// none was.
func (s *steps) pageOf(res *wire.Result, after *wire.LockInfo) {
	all := res.List.Infos
	if after != nil {
		i, found := slices.BinarySearchFunc(all, *after, byPath)
		if found {
			i++
		}
		all = all[i:]
	}
	page := min(int(s.req.Page), wire.MaxDumpPage)
	if res.Done = page == 0 || len(all) <= page; !res.Done {
		all = all[:page]
		last := &all[page-1]
		res.List.Cursor = append([]byte{listCursorFormat, byte(last.Mode)}, last.Path...)
	}
	res.List.Infos = all
}

// listCursorFormat is the first byte of the cursor of an owner's locks, which goes on with
// mode and path of the last that was told.
const listCursorFormat = 2

func decodeListCursor(b []byte) (*wire.LockInfo, *wire.Error) {
	switch {
	case len(b) == 0:
		return nil, nil
	case len(b) < 3 || b[0] != listCursorFormat:
		return nil, wire.Errorf(wire.InvalidArgument, "cursor: is not one that list_owner_locks gave out")
	}
	return &wire.LockInfo{Mode: wire.Mode(b[1]), Path: string(b[2:])}, nil
}

// cursorFormat is the first byte of a listing's cursor, which goes on with the
// group's number and the key after which the listing goes on.
const cursorFormat = 1

// scan answers one page of held locks.
func (s *steps) scan() (res wire.Result, err *wire.Error) {
	from, after, err := decodeCursor(s.req.Cursor, s.n.cfg.GroupCount)
	if err != nil {
		return res, err
	}
	if err := s.caughtUp(); err != nil {
		return res, err
	}
	page := int(s.req.Page)
	if page == 0 {
		page = wire.DefaultDumpPage
	}
	page = min(page, wire.MaxDumpPage)
	groups, err := s.groupsOf(&query{what: askHeld, group: uint16(from)})
	if err != nil {
		return res, err
	}
	res.List = new(wire.List)
	for _, g := range groups {
		if int(g) != from {
			after = "" // it is a key of the group where the last page ended
		}
		found := s.ask(&query{what: askScan, group: g, path: s.req.Path, after: after, page: page - len(res.List.Infos)})
		if err := found.Err(); err != nil {
			return res, err
		}
		res.List.Infos = append(res.List.Infos, found.List.Infos...)
		if len(res.List.Infos) == page {
			next, last := int(g), string(found.List.Cursor)
			if last == "" {
				next++
			}
			res.List.Cursor = encodeCursor(next, last)
			return res, nil
		}
	}
	res.Done = true
	return res, nil
}

func encodeCursor(group int, key string) []byte {
	b := binary.BigEndian.AppendUint16([]byte{cursorFormat}, uint16(group))
	return append(b, key...)
}

func decodeCursor(b []byte, groups int) (group int, key string, err *wire.Error) {
	if len(b) == 0 {
		return 0, "", nil
	}
	if len(b) < 3 || b[0] != cursorFormat || int(binary.BigEndian.Uint16(b[1:])) > groups {
		return 0, "", wire.Errorf(wire.InvalidArgument, "cursor: is not one that this server gave out")
	}
	return int(binary.BigEndian.Uint16(b[1:])), string(b[3:]), nil
}
