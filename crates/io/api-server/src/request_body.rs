//! Reads the body of a request: within its time, its size, and its user's share of memory.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body::Body;
use http_body_util::BodyExt;
use rekindle_api::decode::BODY_BYTES_MAX;
use rekindle_api::status::ApiError;
use tokio::time::timeout;

use super::shares::RequestShare;

/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The error of a body.
pub(super) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The whole body. One that announces too much is not read at all.
///
/// # Errors
/// 413 when it is too long, 429 when its user holds too many bytes, 400 when it does not come.
pub(super) async fn read<B>(
    headers: &HeaderMap,
    body: B,
    share: &mut RequestShare,
) -> Result<Bytes, ApiError>
where
    B: Body,
    B::Error: Into<BodyError>,
{
    let announced = headers.get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > BODY_BYTES_MAX as u64) {
        return Err(ApiError::too_large(BODY_BYTES_MAX));
    }
    if !body.is_end_stream() {
        share.begin_body()?;
    }
    timeout(BODY_TIMEOUT, collect(body, share)).await.unwrap_or_else(|_| {
        Err(ApiError::bad_request(format!(
            "the request's body did not arrive within {} seconds",
            BODY_TIMEOUT.as_secs()
        )))
    })
}

/// Copies each piece: a piece of one byte would keep the whole buffer that it was received in.
async fn collect<B>(body: B, share: &mut RequestShare) -> Result<Bytes, ApiError>
where
    B: Body,
    B::Error: Into<BodyError>,
{
    let mut body = std::pin::pin!(body);
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            ApiError::bad_request(format!("read the request's body: {}", error.into()))
        })?;
        // trailers say nothing to us
        let Ok(data) = frame.into_data() else { continue };
        let bytes = data.remaining();
        if read.len() + bytes > BODY_BYTES_MAX {
            return Err(ApiError::too_large(BODY_BYTES_MAX));
        }
        share.take_body_bytes(bytes)?;
        let mut data = data;
        while data.has_remaining() {
            let chunk = data.chunk();
            read.extend_from_slice(chunk);
            let taken = chunk.len();
            data.advance(taken);
        }
    }
    Ok(read.freeze())
}
