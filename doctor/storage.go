package doctor

import (
	"fmt"
	"slices"
	"strings"
)

func examineConfig(f *Facts, l *list) {
	if f.Config.Fault != "" {
		l.fail("config", f.Config.Fault, "a broker does not start with this configuration, and what it would need cannot be checked",
			"correct it; ringlog settings lists every setting with its default")
	}
}

func examineDirectory(f *Facts, l *list) {
	const check = "data-dir"
	d := &f.Directory
	switch {
	case d.Path == "":
	case d.Error != "":
		l.fail(check, d.Path+": "+d.Error, "the broker cannot use its data directory", "look at the path, its owner and its permissions, or choose another one with --data-dir")
	case d.Writable == No:
		l.fail(check, d.Path+" cannot be written to by this user", "the broker cannot use its data directory",
			"run doctor and broker as the user that owns it, or change the owner")
	case !d.Exists:
		l.ok(check, "%s is not there yet; a broker makes it", d.Path)
	case d.Owner != "" && d.Holder != "":
		l.ok(check, "%s holds the data of %s and is in use by process %s", d.Path, d.Owner, d.Holder)
	case d.Owner != "":
		l.ok(check, "%s holds the data of %s", d.Path, d.Owner)
	case d.HasData:
		l.fail(check, d.Path+" holds files, and no ringlog.properties that says whose",
			"the broker refuses it: what looks empty because a file is missing must not become a new cluster",
			"if the file was lost, put it back; else choose an empty directory")
	default:
		l.ok(check, "%s is empty; a broker makes a new cluster there", d.Path)
	}
}

// fileSystems that are not like a local disk, and why. What is not here is taken as it is.
var fileSystems = map[string]struct {
	level   Level
	why, do string
}{
	"tmpfs":   {Error, "nothing in it survives a reboot, acknowledged or not", "put the data directory on a disk"},
	"ramfs":   {Error, "nothing in it survives a reboot, acknowledged or not", "put the data directory on a disk"},
	"overlay": {Warning, "it is the container's own layer: the records go with the container, and every first write to a file copies it", "mount a volume there: docker run -v ringlog:/var/lib/ringlog"},
	"aufs":    {Warning, "it is the container's own layer: the records go with the container", "mount a volume there"},
	"nfs":     {Warning, "a flush reaches the server and no further than that promises; locks and renames are as good as the server's; each commit pays the network", "use a local disk, or make sure that the export is sync and mounted hard"},
	"nfs4":    {Warning, "a flush reaches the server and no further than that promises; locks and renames are as good as the server's; each commit pays the network", "use a local disk, or make sure that the export is sync and mounted hard"},
	"cifs":    {Warning, "a flush reaches the server and no further than that promises; each commit pays the network", "use a local disk"},
	"9p":      {Warning, "files of the host, shared with a virtual machine: whether a flush reaches the disk is the host's to say", "use a disk or a volume of the machine itself"},
	"v9fs":    {Warning, "files of the host, shared with a virtual machine: whether a flush reaches the disk is the host's to say", "use a disk or a volume of the machine itself"},
	"virtiofs": {Warning, "files of the host, shared with a virtual machine (Docker Desktop does that for macOS and Windows): whether a flush reaches the disk is the host's to say, and it is slow",
		"use a disk or a named volume of the machine itself"},
	"fuse":  {Warning, "what a flush does is that program's to say", "use ext4 or xfs"},
	"vfat":  {Warning, "it has no journal: a power cut can damage it as a whole", "use ext4 or xfs"},
	"exfat": {Warning, "it has no journal: a power cut can damage it as a whole", "use ext4 or xfs"},
	"btrfs": {Warning, "it writes every block elsewhere: reserved space is used once only, overwriting does not get faster, and a nearly full disk refuses writes that had space reserved",
		"use ext4 or xfs; or chattr +C on the empty data directory, and keep a tenth of the disk free"},
	"zfs": {Warning, "it writes every block elsewhere and has no reserved space: a full disk refuses writes that had space reserved, and direct I/O is emulated before OpenZFS 2.3",
		"use ext4 or xfs; or a dataset of its own with a reservation and recordsize=64K"},
}

func examineFileSystem(f *Facts, l *list) {
	const check = "file-system"
	d := &f.Directory
	if d.FileSystem == "" || d.Error != "" {
		return
	}
	kind := d.FileSystem
	if strings.HasPrefix(kind, "fuse") && kind != "fuseblk" {
		kind = "fuse"
	}
	seen := d.FileSystem
	if d.MountPoint != "" {
		seen += " at " + d.MountPoint
	}
	known, is := fileSystems[kind]
	switch {
	case !is:
		l.ok(check, "%s", seen)
	case known.level == Error:
		l.fail(check, seen, known.why, known.do)
	default:
		l.warn(check, seen, known.why, known.do)
	}
}

func examineMount(f *Facts, l *list) {
	const check = "mount"
	d := &f.Directory
	if len(d.MountOptions) == 0 || d.Error != "" {
		return
	}
	has := func(options ...string) string {
		for _, option := range d.MountOptions {
			if slices.Contains(options, option) {
				return option
			}
		}
		return ""
	}
	before := len(*l)
	if has("ro") != "" {
		l.fail(check, d.MountPoint+" is mounted read-only", "nothing can be written; a file system that found itself damaged is mounted so by the kernel",
			"look at the kernel's log (dmesg); after a check of the file system: mount -o remount,rw "+d.MountPoint)
	}
	if option := has("nobarrier", "barrier=0"); option != "" {
		l.fail(check, d.MountPoint+" is mounted with "+option,
			"a flush then ends in the device's cache: acknowledged records are lost when the power is, unless that cache has a battery",
			"remove the option from /etc/fstab and mount it again")
	}
	if option := has("discard", "discard=async"); option == "discard" {
		l.warn(check, d.MountPoint+" is mounted with discard",
			"removing a file then makes the device wait: 50 to 90 ms were measured, during which no commit ends. Ringlog uses files again instead of removing them, but deleted topics and retention do remove some",
			"mount it without discard, and trim at a quiet time: systemctl enable --now fstrim.timer")
	}
	if option := has("sync", "dirsync"); option != "" {
		l.warn(check, d.MountPoint+" is mounted with "+option, "every write is then a flush of its own; Ringlog flushes where it must by itself",
			"remove the option")
	}
	if option := has("data=journal"); option != "" {
		l.warn(check, d.MountPoint+" is mounted with "+option, "ext4 then writes every block twice and refuses direct I/O", "mount it with data=ordered, which is the default")
	}
	if len(*l) == before {
		l.ok(check, "%s", strings.Join(d.MountOptions, ","))
	}
}

func examineDirect(f *Facts, l *list) {
	switch d := &f.Directory; {
	case d.Error != "" || f.System.OS != "linux":
	case d.Direct == No:
		l.warn("direct-io", "the file system of "+d.Path+" does not take O_DIRECT",
			"writes and reads go through the page cache: the promise is the same, but consumers that are far behind push what others need out of it",
			"ext4 and xfs take it; tmpfs since Linux 6.6")
	case d.Direct == Yes:
		l.ok("direct-io", "files open with O_DIRECT")
	}
}

func examineDevice(f *Facts, l *list) {
	const check = "device"
	d := &f.Directory
	if d.Device == "" {
		return
	}
	cache := ""
	switch d.WriteCache {
	case "write back":
		cache = ", with a write cache that each commit flushes"
	case "write through":
		cache = ", which says that it has no write cache: flushes cost nothing, and what it calls written must be"
	}
	switch {
	case d.Rotational == Yes && isVirtual(d.Device):
		l.ok(check, "%s, a virtual disk%s; that it calls itself turning says nothing", d.Device, cache)
	case d.Rotational == Yes:
		l.warn(check, d.Device+", a disk that turns"+cache, "a flush takes as long as a turn, 8 ms and more: commits of few producers are as slow as that",
			"use an SSD; or let producers send more at a time (linger.ms, batch.size), which one flush then carries. Some controllers only say so: cat /sys/block/"+d.Device+"/queue/rotational")
	default:
		l.ok(check, "%s%s", d.Device, cache)
	}
}

// isVirtual says whether the host of a virtual machine made a device up, and what it says of
// itself: virtio calls every disk a turning one unless it is told otherwise.
func isVirtual(device string) bool {
	return strings.HasPrefix(device, "vd") || strings.HasPrefix(device, "xvd")
}

// metadataBytes is what everything but records and journals takes at first:
// metadata.db, checkpoints, manifests, indexes, and the first step of some logs.
const metadataBytes = 64 << 20

func examineSpace(f *Facts, l *list) {
	const check = "space"
	d, c := &f.Directory, &f.Config
	if d.TotalBytes == 0 || c.Fault != "" || d.Error != "" {
		return
	}
	missing := max(c.JournalBytes-d.JournalBytes, 0) // the first start writes it
	seen := fmt.Sprintf("%s of %s are free", bytes(d.FreeBytes), bytes(d.TotalBytes))
	journals := fmt.Sprintf("commit journals need %s more", bytes(missing))
	switch left := d.FreeBytes - missing; {
	case left < 0:
		l.fail(check, seen+"; "+journals, "the broker does not start: it writes its journals through once before it takes a record",
			"make room, or set ringlog.journal.bytes to less")
	case left < c.KeptFreeBytes:
		l.fail(check, fmt.Sprintf("%s; %s are kept free (ringlog.disk.free.min.bytes), and %s", seen, bytes(c.KeptFreeBytes), journals),
			"produces that need new space are refused (KAFKA_STORAGE_ERROR) until there is more; reading works",
			"delete topics or records, shorten retention, enlarge the disk, or keep less free")
	case left-c.KeptFreeBytes < max(metadataBytes, d.TotalBytes/20):
		l.warn(check, fmt.Sprintf("%s; %s are kept free, so %s are left for records", seen, bytes(c.KeptFreeBytes), bytes(left-c.KeptFreeBytes)),
			"produces are refused when that is used", "shorten retention (retention.bytes, retention.ms) or enlarge the disk")
	default:
		l.ok(check, "%s; %s are kept free, %s are left for records", seen, bytes(c.KeptFreeBytes), bytes(left-c.KeptFreeBytes))
	}
}

// inodesMin is enough for some thousand logs.
const inodesMin = 20_000

func examineInodes(f *Facts, l *list) {
	switch d := &f.Directory; {
	case d.FilesTotal == 0 || d.Error != "":
	case d.FilesFree < inodesMin:
		l.warn("inodes", fmt.Sprintf("%d of %d inodes are free", d.FilesFree, d.FilesTotal),
			"each log has a directory and a handful of files; without inodes a topic cannot be created nor a segment begun, however much space is free",
			"remove small files, or make the file system with more inodes (mkfs.ext4 -i, xfs has no fixed number)")
	default:
		l.ok("inodes", "%d of %d are free", d.FilesFree, d.FilesTotal)
	}
}
