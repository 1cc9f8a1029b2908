//! Who somebody is.

use k8s_openapi::api::authentication::v1::{
    SelfSubjectReview, SelfSubjectReviewStatus, TokenReview, TokenReviewStatus, UserInfo,
};

use super::{created, read};
use crate::outcome::ApiAnswer;
use crate::request::{ApiRequest, ResourcePath};
use crate::shared::ApiShared;
use crate::status::ApiError;
use crate::tokens::TokenRefusal;
use crate::validation::items;

/// `selfsubjectreviews`.
pub(super) fn who_am_i(
    _api: &ApiShared,
    request: &ApiRequest,
    _path: &ResourcePath,
) -> Result<ApiAnswer, ApiError> {
    let mut review: SelfSubjectReview = read(request)?;
    let user_info = request.identity.shown();
    review.metadata.creation_timestamp = Some(request.now.to_time());
    review.status = Some(SelfSubjectReviewStatus { user_info: Some(user_info) });
    created(&review)
}

/// `tokenreviews`.
pub(super) fn whose_token(
    api: &ApiShared,
    request: &ApiRequest,
    _path: &ResourcePath,
) -> Result<ApiAnswer, ApiError> {
    let mut review: TokenReview = read(request)?;
    let token = review.spec.token.as_str();
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = items(review.spec.audiences.as_ref());
    let status = match api.tokens.review(api.state(), token, audiences, request.now) {
        Ok(known) => TokenReviewStatus {
            authenticated: Some(true),
            user: Some(known.user.shown()),
            audiences: Some(known.audiences),
            error: None,
        },
        Err(refusal) => TokenReviewStatus {
            error: Some(shown_refusal(&refusal)),
            user: Some(UserInfo::default()),
            ..TokenReviewStatus::default()
        },
    };
    review.status = Some(status);
    created(&review)
}

/// Of a token that is none of ours no more is said, as upstream.
fn shown_refusal(refusal: &TokenRefusal) -> String {
    match refusal {
        TokenRefusal::Token(_) | TokenRefusal::NoKey | TokenRefusal::Issuer => {
            "invalid bearer token".to_owned()
        }
        TokenRefusal::Time | TokenRefusal::Audience(..) | TokenRefusal::Gone(..) => {
            refusal.to_string()
        }
    }
}
