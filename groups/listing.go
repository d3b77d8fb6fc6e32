package groups

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/wire"
)

// list answers what an owner holds, in order of paths.
func (s *steps) list() (res wire.Result, err *wire.Error) {
	if err := s.caughtUpIn(); err != nil {
		return res, err
	}
	results, err := s.askWhere(askList, s.req.Owner, s.names())
	res.List = new(wire.List)
	for i := range results {
		res.Flag = res.Flag || results[i].Flag
		res.List.Infos = append(res.List.Infos, results[i].List.Infos...)
	}
	slices.SortFunc(res.List.Infos, func(a, b wire.LockInfo) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return int(a.Mode) - int(b.Mode)
	})
	return res, err
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
