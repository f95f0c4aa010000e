import Broker
import Dispatch
import Glibc
import Synchronization

/// Reports changes of token files that the kernel notices (inotify(7)): by other programs, and by the broker itself.
///
/// A folder that cannot be watched is not an error: the files in it are compared every few minutes.
final class FileWatch: Sendable {
  private struct State {
    /// The paths of token files in each watched folder, by the watch's number.
    var folders: [Int32: (path: String, files: Set<String>)] = [:]
    /// The places in each file: another program's file may have several.
    var places: [String: Set<TokenFile.Place>] = [:]
    /// Changed paths that are not reported yet.
    var changed: Set<String> = []
    var isReporting = false
  }

  /// Reports that wait. The paths of the oldest are reported again.
  private static let mostWaiting = 64
  /// Several changes of one file in this time are one.
  private static let delay = DispatchTimeInterval.milliseconds(100)
  private static let wanted = UInt32(
    IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF)

  /// The paths that were changed.
  let changes: AsyncStream<[String]>
  private let reports: AsyncStream<[String]>.Continuation
  private let descriptor: Int32
  private let queue = DispatchQueue(label: "token-file-watch")
  private let state = Mutex(State())
  // Only activated and cancelled, which any thread may do.
  private nonisolated(unsafe) let source: (any DispatchSourceRead)?

  init() {
    (changes, reports) = AsyncStream.makeStream(
      of: [String].self, bufferingPolicy: .bufferingNewest(Self.mostWaiting))
    let descriptor = inotify_init1(Int32(IN_CLOEXEC | IN_NONBLOCK))
    self.descriptor = descriptor
    source = descriptor < 0 ? nil : DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
    source?.setEventHandler { [weak self] in self?.read() }
    source?.setCancelHandler { close(descriptor) }
    source?.activate()
  }

  deinit {
    source?.cancel()
    reports.finish()
  }

  /// Watches the folder of the file.
  func add(_ place: TokenFile.Place, in folder: String) {
    guard descriptor >= 0 else { return }
    state.withLock { state in
      state.places[place.path, default: []].insert(place)
      // The same number if the folder is watched already, another if it was removed and made again.
      let number = inotify_add_watch(
        descriptor, folder, Self.wanted | UInt32(IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK))
      guard number >= 0 else { return }
      state.folders[number, default: (folder, [])].files.insert(place.path)
    }
  }

  func remove(_ place: TokenFile.Place) {
    let path = place.path
    state.withLock { state in
      state.places[path]?.remove(place)
      guard state.places[path]?.isEmpty != false else { return }
      state.places[path] = nil
      guard let number = state.folders.first(where: { $0.value.files.contains(path) })?.key else { return }
      state.folders[number]?.files.remove(path)
      guard state.folders[number]?.files.isEmpty == true else { return }
      inotify_rm_watch(descriptor, number)
      state.folders[number] = nil
    }
  }

  private func read() {
    var buffer = [UInt8](repeating: 0, count: 64 << 10)
    while true {
      let count = Glibc.read(descriptor, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { break }
      state.withLock { Self.handle(buffer[..<count], &$0) }
    }
    reportSoon()
  }

  private static func handle(_ events: ArraySlice<UInt8>, _ state: inout State) {
    let header = MemoryLayout<inotify_event>.size
    var rest = events
    while rest.count >= header {
      let event = rest.withUnsafeBytes { $0.loadUnaligned(as: inotify_event.self) }
      let name = rest.dropFirst(header).prefix(Int(event.len)).prefix { $0 != 0 }
      rest = rest.dropFirst(header + Int(event.len))
      // Events were lost: any file may have changed.
      if event.mask & UInt32(IN_Q_OVERFLOW) != 0 {
        for folder in state.folders.values { state.changed.formUnion(folder.files) }
        continue
      }
      guard let folder = state.folders[event.wd] else { continue }
      if event.mask & UInt32(IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF) != 0 {
        state.changed.formUnion(folder.files)
        if event.mask & UInt32(IN_IGNORED) != 0 { state.folders[event.wd] = nil }
      } else {
        let path = (folder.path == "/" ? "" : folder.path) + "/" + String(decoding: name, as: UTF8.self)
        if folder.files.contains(path) { state.changed.insert(path) }
      }
    }
  }

  private func reportSoon() {
    let begins = state.withLock { state in
      guard !state.changed.isEmpty, !state.isReporting else { return false }
      state.isReporting = true
      return true
    }
    guard begins else { return }
    queue.asyncAfter(deadline: .now() + Self.delay) { [weak self] in
      guard let self else { return }
      let paths = state.withLock { state in
        defer { (state.changed, state.isReporting) = ([], false) }
        return state.changed.sorted()
      }
      guard case .dropped(let old) = reports.yield(paths) else { return }
      state.withLock { $0.changed.formUnion(old) }
      reportSoon()
    }
  }
}
