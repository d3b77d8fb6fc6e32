package groups

import (
	"encoding/binary"
	"slices"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// list answers what an owner holds, in the order of engine.Owned: a page of it, or all when no page
// was asked for. Each group is asked for as much as a page takes, and for one lock more, which
// says that there is another page.
func (s *steps) list() (res wire.Result, err *wire.Error) {
	after, err := decodeListCursor(s.req.Cursor)
	if err != nil {
		return res, err
	}
	if err := s.caughtUpIn(); err != nil {
		return res, err
	}
	page := min(int(s.req.Page), wire.MaxDumpPage)
	q := replica.Query{What: replica.AskList, Owner: s.req.Owner, Names: s.names(), After: string(after)}
	if page > 0 {
		q.Page = page + 1
	}
	results, err := s.gather(&q)
	res.List = new(wire.List)
	for i := range results {
		res.Flag = res.Flag || results[i].Flag
		res.List.Infos = append(res.List.Infos, results[i].List.Infos...)
	}
	slices.SortFunc(res.List.Infos, func(a, b wire.LockInfo) int {
		return engine.PlaceOf(&a).Compare(engine.PlaceOf(&b))
	})
	if res.Done = page == 0 || len(res.List.Infos) <= page; !res.Done {
		res.List.Infos = res.List.Infos[:page]
		res.List.Cursor = append([]byte{listCursorFormat}, replica.AppendPlace(nil, &res.List.Infos[page-1])...)
	}
	return res, err
}

// listCursorFormat is the first byte of the cursor of an owner's locks, which goes on with the
// place of the last that was told.
const listCursorFormat = 2

func decodeListCursor(b []byte) ([]byte, *wire.Error) {
	switch {
	case len(b) == 0:
		return nil, nil
	case len(b) < 3 || b[0] != listCursorFormat:
		return nil, wire.Errorf(wire.InvalidArgument, "cursor: is not one that list_owner_locks gave out")
	}
	return b[1:], nil
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
	groups, err := s.groupsOf(&replica.Query{What: replica.AskHeld, Group: uint16(from)})
	if err != nil {
		return res, err
	}
	res.List = new(wire.List)
	for _, g := range groups {
		if int(g) != from {
			after = "" // it is a key of the group where the last page ended
		}
		found := s.ask(&replica.Query{What: replica.AskScan, Group: g, Path: s.req.Path, After: after,
			Page: page - len(res.List.Infos)})
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

// gather is askWhere in a turn of the call's connection: a connection has few long answers in memory at once.
//
// Nobody is to have a turn and wait for a leader, as others may want to gather of other logs. So the leader is waited
// for before, when it is asked where the owner is, and then whoever leads the log answers as it is (query.AsIs). If
// nobody does, as the leader was lost meanwhile, the turn is given back, and the next leader waited for. What is long
// may take half of a call's time on a slow link. Nor does a call keep a turn for what comes to nothing, as where a move
// has it ask another log.
func (s *steps) gather(q *replica.Query) ([]wire.Result, *wire.Error) {
	t := s.c.Turns
	if t == nil {
		return s.askWhere(q)
	}
	s.found = make(map[uint64]int64)
	for since := s.since; ; {
		present, err := s.find(q.Owner)
		if err == nil {
			err = s.turn()
		}
		if err != nil {
			return nil, err
		}
		s.since = min(since, s.n.clock.Mono()-s.n.cfg.RequestTimeout/2)
		results, err := s.askIn(present, q)
		s.since = since
		if err == nil {
			s.c.Turn = true
			return results, nil
		}
		if t.Free <- struct{}{}; err.Message != errReadLate.Message || s.left() <= 0 {
			return nil, err
		}
		switch s.n.tasks.wait(askReadPause, t.Gone, s.n.stop) {
		case 0:
			return nil, errConnectionGone
		case 1:
			return nil, errReadStopped
		}
	}
}

// errConnectionGone answers a listing that nobody waits for any more.
var errConnectionGone = wire.Errorf(wire.Unavailable, "the connection is gone; nothing was read")

// turn waits for a turn. A call keeps its place among those that are carried out in steps meanwhile, but with others of
// the node no more than a quarter of the places: what waits for leaders may have half (scarce), and the rest is for
// what waits for nothing. Of a connection so many wait in any case; more only until half of the places are taken.
func (s *steps) turn() *wire.Error {
	c, n := s.c, s.n
	select {
	case <-c.Turns.Free:
		return nil
	default:
	}
	all, waiting := n.turning.Add(1), c.Turns.Waiting.Add(1)
	defer n.turning.Add(-1)
	defer c.Turns.Waiting.Add(-1)
	if int(all) > cap(s.places)/4 {
		return wire.Errorf(wire.Unavailable,
			"%d listings wait for those of their connections to be read that are answered, at most %d may; nothing "+
				"was read, try again",
			all, cap(s.places)/4)
	}
	if waiting > 2*wire.MaxGathered && len(s.places) > cap(s.places)/2 {
		return wire.Errorf(wire.Unavailable,
			"%d listings of this connection wait for those to be read that are answered, and of %d calls that may "+
				"be carried out in steps %d are; nothing was read, try again",
			waiting, cap(s.places), len(s.places))
	}
	switch n.tasks.wait(s.left(), c.Turns.Free, c.Turns.Gone, n.stop) {
	case 0:
		return nil
	case 1:
		return errConnectionGone
	case 2:
		return errReadStopped
	}
	return wire.Errorf(wire.Unavailable,
		"of this connection %d listings are answered at a time, as its client reads them, and this one had no turn "+
			"within request_timeout_ms; nothing was read, try again",
		wire.MaxGathered)
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
