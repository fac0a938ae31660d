package crash

import "ringlog/engine/disk"

// page is one block of a file. A page is never changed once an image holds it,
// so that images, pending effects and whole crash outcomes share pages.
type page [disk.BlockBytes]byte

const sectorsPerPage = disk.BlockBytes / disk.SectorBytes

// image is the content of one file. Pages that are missing read as zeros.
// Invariant: no page holds a byte other than zero at or behind size, so that a
// file which grows again reads zeros there.
type image struct {
	size  int64 // bytes
	pages map[int64]*page
}

// clone returns an image that changes on its own.
func (m *image) clone() image {
	pages := make(map[int64]*page, len(m.pages))
	for index, p := range m.pages {
		pages[index] = p
	}
	return image{size: m.size, pages: pages}
}

// put stores p as page index; p must not change from here on.
func (m *image) put(index int64, p *page) {
	if m.pages == nil {
		m.pages = make(map[int64]*page)
	}
	m.pages[index] = p
}

// copyOfPage returns page index for changing before put.
func (m *image) copyOfPage(index int64) *page {
	fresh := new(page)
	if old := m.pages[index]; old != nil {
		*fresh = *old
	}
	return fresh
}

// readAt fills buffer from offset and returns how many bytes the file had there.
func (m *image) readAt(buffer []byte, offset int64) int {
	if offset >= m.size {
		return 0
	}
	buffer = buffer[:min(int64(len(buffer)), m.size-offset)]
	for done := 0; done < len(buffer); {
		index, inside := (offset+int64(done))/disk.BlockBytes, (offset+int64(done))%disk.BlockBytes
		piece := buffer[done:min(len(buffer), done+disk.BlockBytes-int(inside))]
		if p := m.pages[index]; p != nil {
			copy(piece, p[inside:])
		} else {
			clear(piece)
		}
		done += len(piece)
	}
	return len(buffer)
}

// writeAt stores data, extending the file. It is for images made by hand; the
// disk's own writes go through effects.
func (m *image) writeAt(data []byte, offset int64) {
	m.size = max(m.size, offset+int64(len(data)))
	for len(data) > 0 {
		index, inside := offset/disk.BlockBytes, offset%disk.BlockBytes
		p := m.copyOfPage(index)
		count := copy(p[inside:], data)
		m.put(index, p)
		data, offset = data[count:], offset+int64(count)
	}
}

// zero makes [offset, offset+length) read as zeros; the size stays.
func (m *image) zero(offset, length int64) {
	for end := offset + length; offset < end; {
		index, inside := offset/disk.BlockBytes, offset%disk.BlockBytes
		count := min(disk.BlockBytes-inside, end-offset)
		switch {
		case m.pages[index] == nil:
		case count == disk.BlockBytes:
			delete(m.pages, index)
		default:
			p := m.copyOfPage(index)
			clear(p[inside : inside+count])
			m.put(index, p)
		}
		offset += count
	}
}

// cut restores the invariant after size was set: nothing is left behind it.
func (m *image) cut() {
	last := m.size / disk.BlockBytes
	for index := range m.pages {
		if index > last {
			delete(m.pages, index)
		}
	}
	m.zero(m.size, disk.BlockBytes-m.size%disk.BlockBytes)
}

// bytes returns the content up to the last page that is not a hole.
func (m *image) bytes() []byte {
	end := int64(0)
	for index := range m.pages {
		end = max(end, (index+1)*disk.BlockBytes)
	}
	content := make([]byte, min(end, m.size))
	m.readAt(content, 0)
	return content
}
