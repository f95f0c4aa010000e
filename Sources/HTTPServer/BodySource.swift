import NIOCore

/// Feeds a request's body to its reader.
final class BodySource {
  let sequence: HTTPRequestBody.Producer
  private let source: HTTPRequestBody.Producer.Source
  private var isOver = false

  init(want: @escaping @Sendable () -> Void) {
    let new = NIOThrowingAsyncSequenceProducer.makeSequence(
      elementType: ByteBuffer.self, failureType: (any Error).self,
      backPressureStrategy: NIOAsyncSequenceProducerBackPressureStrategies.HighLowWatermark(
        lowWatermark: 1, highWatermark: 4),
      finishOnDeinit: true, delegate: BodyDemand(want: want, end: {}))
    sequence = new.sequence
    source = new.source
    self.want = want
  }

  private let want: @Sendable () -> Void

  func yield(_ bytes: ByteBuffer) {
    guard !isOver else { return }
    switch source.yield(bytes) {
    case .produceMore: want()
    case .stopProducing: break
    case .dropped: isOver = true
    }
  }

  func finish(_ error: (any Error)?) {
    guard !isOver else { return }
    isOver = true
    if let error { source.finish(error) } else { source.finish() }
  }
}
